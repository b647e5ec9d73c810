"""A drawing: random ids, pixels or sound of the shapes that a model takes."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attn_cli.core.findings import note
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids, with_decoder
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.processors import processing

STRIDE = 320  # samples of sound to one position, where the configuration does not say
MOST = 1 << 20


def drawn_inputs(loaded: LoadedModel, length: int, seed: int) -> ModelInputs:
    """One item of `length` tokens, drawn with `seed`; a picture has the size the model wants.

    Of an encoder-decoder the decoder gets half as many tokens.
    """
    if not 1 <= length <= MOST:
        raise InputError(f"cannot draw {length} tokens: expected 1 to {MOST:,}")
    random = torch.Generator().manual_seed(seed)
    if loaded.kind == "vision":
        made = ModelInputs(tensors={"pixel_values": draw_pixels(loaded, random)})
        return with_decoder(loaded, made)
    if loaded.kind == "speech":
        return _sound(loaded, length, random)
    rows = [_ids(loaded, length, random)]
    under = (
        [_ids(loaded, max(1, length // 2), random)] if loaded.config.is_encoder_decoder else None
    )
    made = inputs_of_ids(loaded, rows, decoder=under)
    if loaded.kind != "image-text":
        return made
    if loaded.config.model_type in TWO_TOWERS or _insists(loaded):
        return made.with_tensors(pixel_values=draw_pixels(loaded, random))
    mark = picture_token(loaded)
    if mark is None or not plain_pictures(loaded):
        said = f"no picture is drawn for {loaded.architecture}, whose pixels come in pieces"
        return replace(made, notes=(note("picture", said),))
    return _beside_picture(loaded, rows[0], mark, random)


CUT = ("idefics2", "idefics3", "smolvlm")  # pictures are cut into tiles first
TWO_TOWERS = ("clip", "siglip", "siglip2", "altclip", "chinese_clip", "align", "clipseg", "owlvit")


def picture_token(loaded: LoadedModel) -> int | None:
    """The id that stands for one position of a picture; None where text has none."""
    for name in ("image_token_id", "image_token_index"):
        if type(value := getattr(loaded.config, name, None)) is int:
            return value
    return None


def draw_pixels(loaded: LoadedModel, random: torch.Generator) -> Tensor:
    """(1, channels, height, width) of normal numbers in the model's precision."""
    height, width, channels = picture_size(loaded)
    pixels = torch.randn(1, channels, height, width, generator=random)
    return pixels.to(loaded.device, loaded.model.dtype)


def picture_size(loaded: LoadedModel) -> tuple[int, int, int]:
    """Height, width and channels of the pictures that a model takes."""
    vision: Any = getattr(loaded.config, "vision_config", None) or loaded.config
    size = getattr(vision, "image_size", None)
    if isinstance(size, (list, tuple)) and len(size) == 2:
        height, width = int(size[0]), int(size[1])
    elif type(size) is int:
        height = width = size
    else:
        raise UnsupportedError(
            f"{loaded.architecture} does not say the size of its pictures in its configuration",
            hint="give --image with a preprocessor_config.json in the folder",
        )
    return height, width, int(getattr(vision, "num_channels", 3) or 3)


def _insists(loaded: LoadedModel) -> bool:
    """Whether the forward has no default for its picture."""
    pixels = inspect.signature(loaded.model.forward).parameters.get("pixel_values")
    return pixels is not None and pixels.default is pixels.empty


def plain_pictures(loaded: LoadedModel) -> bool:
    """Whether the model's pictures are (channels, height, width) of one size and nothing else."""
    ask = _features(loaded)
    vision: Any = getattr(loaded.config, "vision_config", None)
    if ask is None or not hasattr(vision, "image_size"):
        return False
    needed = [
        name
        for name, each in inspect.signature(ask).parameters.items()
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    return needed == ["pixel_values"] and loaded.config.model_type not in CUT


def _features(loaded: LoadedModel) -> Any:
    """The model's own way from pixels to positions of the text."""
    inner = getattr(loaded.model, "model", None)
    return getattr(loaded.model, "get_image_features", getattr(inner, "get_image_features", None))


def _beside_picture(
    loaded: LoadedModel, ids: list[int], mark: int, random: torch.Generator
) -> ModelInputs:
    """As many picture tokens as the model's vision tower gives, then the text."""
    pixels = draw_pixels(loaded, random)
    count = positions_of_picture(loaded, pixels)
    made = inputs_of_ids(loaded, [[mark] * count + ids])
    more: dict[str, Tensor] = {"pixel_values": pixels}
    if loaded.takes("token_type_ids"):
        kinds = torch.zeros_like(made.tensors["input_ids"])
        kinds[:, :count] = 1 if loaded.config.model_type.startswith("gemma3") else 0
        more["token_type_ids"] = kinds
    return made.with_tensors(**more)


def positions_of_picture(loaded: LoadedModel, pixels: Tensor) -> int:
    """How many positions of the text one picture takes, by the model's own features.

    InputError where the model does not take these pixels.
    """
    ask = _features(loaded)
    if ask is None:
        raise UnsupportedError(f"{loaded.architecture} does not say how it reads a picture")
    with torch.no_grad(), processing(f"{loaded.architecture} does not take this picture"):
        features = ask(pixel_values=pixels)
        features = getattr(features, "pooler_output", features)
        features = torch.cat(list(features)) if isinstance(features, (list, tuple)) else features
        return int(features.numel() // features.shape[-1])


def _ids(loaded: LoadedModel, length: int, random: torch.Generator) -> list[int]:
    """Ids of the vocabulary, none of a special meaning where they can be told."""
    config = loaded.text_config
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id")
    special = {getattr(config, name, None) for name in names} | {picture_token(loaded)}
    size = int(config.vocab_size)
    free = [i for i in range(min(size, MOST)) if i not in special] or [0]
    chosen = torch.randint(len(free), (length,), generator=random)
    return [free[i] for i in chosen.tolist()]


def _sound(loaded: LoadedModel, length: int, random: torch.Generator) -> ModelInputs:
    config, name = loaded.config, loaded.model.main_input_name
    if name == "input_values":
        strides = getattr(config, "conv_stride", None)
        samples = (length + 1) * (math.prod(strides) if strides else STRIDE)
        sound = torch.randn(1, samples, generator=random)
    else:
        bins = int(getattr(config, "num_mel_bins", 80))
        frames = 2 * int(getattr(config, "max_source_positions", length))
        sound = torch.randn(1, bins, frames, generator=random)
    tensors = {name: sound.to(loaded.device, loaded.model.dtype)}
    if not config.is_encoder_decoder:
        return ModelInputs(tensors=tensors)
    rows = [_ids(loaded, length, random)]
    made = inputs_of_ids(loaded, rows, decoder=rows)
    tensors["decoder_input_ids"] = made.tensors["decoder_input_ids"]
    return ModelInputs(tensors=tensors, decoder_tokens=made.decoder_tokens)
