"""Pictures: a file, or pixel values as .npy, as what a vision model takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.formats.npy_file import read as read_npy
from attn_cli.formats.source import naming
from attn_cli.models.hf.drawing import (
    TWO_TOWERS,
    picture_size,
    picture_token,
    plain_pictures,
    positions_of_picture,
)
from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.picture_file import check_file, open_picture
from attn_cli.models.hf.processed import picture_tensors, processed
from attn_cli.models.hf.processors import FILES, has_processor, image_processor, own_processor

_NPY = ".npy"


def check_picture(loaded: LoadedModel, source: str, texts: int) -> None:
    """InputError for a picture for a model of text, and for words that it cannot stand beside."""
    if loaded.kind not in ("vision", "image-text"):
        raise InputError(f"{loaded.architecture} reads no pictures", hint="give --text")
    with naming(source):
        check_file(Path(source))
    if loaded.kind == "vision" and texts:
        raise InputError(f"{loaded.architecture} reads no text", hint="give --image alone")
    if loaded.kind == "image-text" and not texts:
        raise InputError(f"{loaded.architecture} reads a picture and text: give --text, too")
    if texts > 1 and loaded.config.model_type not in TWO_TOWERS:
        raise InputError(
            f"there are {texts:,} texts and one picture: {loaded.architecture} reads one of each"
        )


def picture_and_texts(
    loaded: LoadedModel, source: str, texts: tuple[str, ...]
) -> ModelInputs | None:
    """Both as the model's own processor makes them; None where there is none, or no picture file.

    InputError where the file is no picture, or the processor refuses it.
    """
    if Path(source).suffix == _NPY or not has_processor(loaded):
        return None
    processor = own_processor(loaded)
    if processor is None:
        return None
    picture, said = _opened(source)
    made = processed(loaded, processor, picture, texts)
    return replace(made, notes=(*said, *made.notes))


def picture_alone(loaded: LoadedModel, source: str) -> ModelInputs:
    """A picture for a model that reads nothing else, by its own image processor where it has one.

    Pixel values in a .npy, (channels, height, width) or a batch of them, go in as they are.
    """
    if Path(source).suffix == _NPY or not has_processor(loaded):
        pixels, said = _plain(loaded, source)
        return ModelInputs(tensors={"pixel_values": pixels}, notes=said)
    processor = image_processor(loaded)
    picture, said = _opened(source)
    return ModelInputs(tensors=picture_tensors(loaded, processor, picture), notes=said)


def picture_beside(loaded: LoadedModel, source: str, words: ModelInputs) -> ModelInputs:
    """Pixels of one size beside ids, with as many picture tokens in front as the model makes.

    UnsupportedError for a model whose pictures come in pieces: only its processor can cut them.
    """
    mark = picture_token(loaded)
    if mark is not None and not plain_pictures(loaded):
        raise UnsupportedError(
            f"{loaded.architecture} takes its pictures in pieces that only its own processor cuts",
            hint=_way_out(loaded, source),
        )
    pixels, said = _pixels(loaded, source)
    said = (*words.notes, *said)
    if mark is None:
        return replace(words.with_tensors(pixel_values=pixels), notes=said)
    ids = [int(i) for i in words.tensors["input_ids"][0]]
    if mark not in ids:
        count = positions_of_picture(loaded, pixels)
        labels = (tuple(f"image {i}" for i in range(count)) + words.tokens[0],)
        made = inputs_of_ids(loaded, [[mark] * count + ids], labels=labels)
        words = replace(
            words,
            tensors={**words.tensors, **made.tensors, **_decoder(words)},
            tokens=made.tokens,
            lengths=made.lengths,
        )
    return replace(words.with_tensors(pixel_values=pixels), notes=said)


def _decoder(words: ModelInputs) -> dict[str, Tensor]:
    return {name: each for name, each in words.tensors.items() if name.startswith("decoder")}


def _way_out(loaded: LoadedModel, source: str) -> str:
    if has_processor(loaded) and Path(source).suffix != _NPY:
        return "give the words as --text"
    if has_processor(loaded):
        return "give a picture file and --text"
    return f"put {' or '.join(FILES)} and the tokenizer's files of the model into its folder"


def _opened(source: str) -> tuple[Any, tuple[Finding, ...]]:
    with naming(source):
        return open_picture(Path(source))


def _pixels(loaded: LoadedModel, source: str) -> tuple[Tensor, tuple[Finding, ...]]:
    """Pixel values alone, by the model's own image processor where there is one."""
    if Path(source).suffix == _NPY or not has_processor(loaded):
        return _plain(loaded, source)
    processor = image_processor(loaded)
    picture, said = _opened(source)
    made = picture_tensors(loaded, processor, picture)
    if "pixel_values" not in made:
        raise UnsupportedError(f"{type(processor).__name__} makes no pixel values of a picture")
    return made["pixel_values"], said


def _plain(loaded: LoadedModel, source: str) -> tuple[Tensor, tuple[Finding, ...]]:
    """Numbers of a .npy as they are; a picture in the size of the configuration, −1 to 1."""
    said: tuple[Finding, ...] = ()
    if Path(source).suffix == _NPY:
        with naming(source):
            pixels = _ready(loaded, Path(source))
    else:
        height, width, _ = picture_size(loaded)
        picture, said = _opened(source)
        plain = np.asarray(picture.resize((width, height)), np.float32) / 127.5 - 1
        pixels = torch.from_numpy(plain).permute(2, 0, 1)[None]
        words = f"there is no {FILES[1]}: the picture was made {width} × {height}, from −1 to 1"
        said = (*said, note("picture", words))
    return pixels.to(loaded.device, loaded.model.dtype), said


def _ready(loaded: LoadedModel, path: Path) -> Tensor:
    given = read_npy(path).arrays["x"]
    if given.dtype == bool or given.ndim not in (3, 4) or not given.size:
        raise InputError(
            f"is {given.dtype} {given.shape}: expected numbers (channels, height, width)"
        )
    with np.errstate(over="ignore"):
        array = np.array(given, np.float32)  # torch wants memory that can be written to
    if not np.isfinite(array).all():
        raise InputError("holds a number that is not finite in float32")
    array = array if array.ndim == 4 else array[None]
    channels = picture_size(loaded)[2]
    if array.shape[1] != channels:
        raise InputError(
            f"has {array.shape[1]} channels on its first axis and the model takes {channels}"
        )
    return torch.from_numpy(array)
