"""A picture out of a file: whatever it is in, as 8-bit red, green and blue, upright."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from attn_cli.core.findings import Finding, note
from attn_cli.errors import AttnError, InputError
from attn_cli.models.hf.extra import needed

LARGEST = 256 << 20  # bytes of a file
MOST_PIXELS = 1 << 26  # 67 million; one of them takes a dozen bytes until it is scaled
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N")
_UNKNOWN_RANGE = ("I", "F")


def check_file(path: Path) -> None:
    """InputError unless this is a regular file that is not far too long."""
    if not path.is_file():
        odd = "is no regular file" if path.exists() else "no such file"
        raise InputError("is a folder" if path.is_dir() else odd)
    size = path.stat().st_size
    if size > LARGEST:
        raise InputError(f"is longer than {LARGEST:,} bytes")
    if not size:
        raise InputError("the file is empty")


def open_picture(path: Path) -> tuple[Any, tuple[Finding, ...]]:
    """The picture for Pillow and for processors, and what had to be decided.

    It stands upright as its camera says (EXIF); of an animation it is the first frame, transparency
    is dropped, and 16 bits of grey become 8. InputError for what is no picture, or too large.
    """
    pillow = needed("PIL.Image", "hf")
    transposed = needed("PIL.ImageOps", "hf").exif_transpose
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a large picture: the size is looked at here
            with pillow.open(path) as opened:
                _check_size(*opened.size)
                said = tuple(note("picture", words) for words in _decided(opened))
                return transposed(_eight_bits(opened, pillow)).convert("RGB"), said
    except AttnError:
        raise
    except MemoryError as error:
        raise InputError("is a picture that does not fit in memory") from error
    except pillow.DecompressionBombError as error:
        raise InputError(f"holds more than the {MOST_PIXELS:,} pixels that attn reads") from error
    except Exception as error:  # a file of any content may make a decoder raise anything
        raise InputError("is not a picture that can be read") from error


def _check_size(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise InputError(
            f"is {width:,} × {height:,} pixels: attn reads at most {MOST_PIXELS:,} of them",
            hint="make the picture smaller: the model scales it down anyway",
        )


def _decided(opened: Any) -> list[str]:
    frames = int(getattr(opened, "n_frames", 1))
    said = [f"the file holds {frames:,} pictures: the first one is given"] if frames > 1 else []
    if opened.mode in _DEEP:
        said.append("16 bits of grey a pixel were made 8")
    if "A" in opened.getbands() or "transparency" in opened.info:
        said.append("what is transparent in the picture is given as if it were not")
    return said


def _eight_bits(opened: Any, pillow: Any) -> Any:
    """Pillow cuts larger numbers off at 255, so that 16 bits of grey would be white."""
    if opened.mode in _UNKNOWN_RANGE:
        raise InputError(
            "holds 32 bits a pixel, of which nobody says where white is",
            hint="give 8 or 16 bits a pixel, or pixel values as .npy",
        )
    if opened.mode not in _DEEP:
        return opened
    return pillow.fromarray((np.asarray(opened) >> 8).astype(np.uint8))
