"""Pictures: a file, or pixel values as .npy, as what a vision model takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError
from attn_cli.formats.source import naming
from attn_cli.models.hf.drawing import picture_size, picture_token, positions_of_picture
from attn_cli.models.hf.extra import needed, transformers
from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids
from attn_cli.models.hf.loaded import LoadedModel

PROCESSOR = "preprocessor_config.json"
LARGEST = 256 << 20  # bytes of a file


def with_picture(loaded: LoadedModel, source: str, words: ModelInputs | None) -> ModelInputs:
    """The picture, and `words` beside it for a model of both; InputError for a model of text.

    The model's own preprocessor cuts and scales it. Pixel values in a .npy, (channels, height,
    width) or a batch of them, go in as they are.
    """
    if loaded.kind not in ("vision", "image-text"):
        raise InputError(f"{loaded.architecture} reads no pictures", hint="give --text")
    with naming(source):
        pixels, said = _pixels(loaded, Path(source))
    pixels = pixels.to(loaded.device, loaded.model.dtype)
    if loaded.kind == "vision":
        return ModelInputs(tensors={"pixel_values": pixels}, notes=said)
    if words is None:
        raise InputError(f"{loaded.architecture} reads a picture and text: give --text, too")
    mark = picture_token(loaded)
    if mark is None:
        return replace(words.with_tensors(pixel_values=pixels), notes=said)
    ids = [int(i) for i in words.tensors["input_ids"][0]]
    if mark not in ids:
        count = positions_of_picture(loaded, pixels)
        labels = (tuple(f"image {i}" for i in range(count)) + words.tokens[0],)
        words = inputs_of_ids(loaded, [[mark] * count + ids], labels=labels)
    return replace(words.with_tensors(pixel_values=pixels), notes=said)


def _pixels(loaded: LoadedModel, path: Path) -> tuple[Tensor, tuple[Finding, ...]]:
    if not path.is_file():
        raise InputError("is a folder" if path.is_dir() else "no such file")
    if path.stat().st_size > LARGEST:
        raise InputError(f"is longer than {LARGEST:,} bytes")
    if path.suffix == ".npy":
        return _ready(loaded, path), ()
    picture = _opened(path)
    if (Path(loaded.source) / PROCESSOR).exists() or not Path(loaded.source).is_dir():
        own = transformers().AutoImageProcessor.from_pretrained(loaded.source)
        return own(images=picture, return_tensors="pt")["pixel_values"], ()
    height, width, _ = picture_size(loaded)
    plain = np.asarray(picture.resize((width, height)), np.float32) / 127.5 - 1
    said = f"there is no {PROCESSOR}: the picture was made {width} × {height}, from −1 to 1"
    return torch.from_numpy(plain).permute(2, 0, 1)[None], (note("picture", said),)


def _opened(path: Path) -> Any:
    pillow = needed("PIL.Image", "hf")
    try:
        return pillow.open(path).convert("RGB")
    except (OSError, ValueError, pillow.DecompressionBombError) as error:
        raise InputError("is not a picture that can be read") from error


def _ready(loaded: LoadedModel, path: Path) -> Tensor:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError("is not a .npy file") from error
    if array.dtype.kind not in "fiu" or array.ndim not in (3, 4):
        raise InputError(
            f"is {array.dtype} {array.shape}: expected numbers (channels, height, width)"
        )
    array = array if array.ndim == 4 else array[None]
    channels = picture_size(loaded)[2]
    if array.shape[1] != channels:
        raise InputError(
            f"has {array.shape[1]} channels on its first axis and the model takes {channels}"
        )
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))
