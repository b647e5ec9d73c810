"""Pictures and text as the checkpoint's own processor makes them, with a label each position."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from attn_cli.core.findings import Finding, note
from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.formats.names import quoted
from attn_cli.models.hf.drawing import picture_token
from attn_cli.models.hf.inputs import Labels, ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.processors import processing

_TRAINING = ("labels",)
_PROBE = "§"  # stands for the words of a user while a chat template is asked for what is around


def processed(
    loaded: LoadedModel, processor: Any, picture: Any, texts: tuple[str, ...]
) -> ModelInputs:
    """What the processor makes of a picture and its text, all that the forward takes of it.

    Where the processor does not take a text without the picture's token, the token is put in front
    of the text as the chat template writes it, and a note says so. Positions of the picture are
    called "image 0" and so on. Several texts are for a model of two towers, which compares a
    picture with each. InputError where the processor refuses, or the text becomes too long.
    """
    given, notes = _given(loaded, processor, picture, texts)
    ids = given["input_ids"]
    _check(loaded, ids)
    mask = given.get("attention_mask", torch.ones_like(ids))
    padded = tuple(mask.shape) != tuple(ids.shape)
    return ModelInputs(
        tensors={name: _moved(loaded, tensor) for name, tensor in given.items()},
        tokens=_labels(loaded, processor, given),
        lengths=(ids.shape[1],) * ids.shape[0] if padded else tuple(mask.sum(1).tolist()),
        notes=notes,
    )


def picture_tensors(loaded: LoadedModel, processor: Any, picture: Any) -> dict[str, Tensor]:
    """What an image processor makes of a picture for a model that reads no text."""
    with _reading(processor):
        made = processor(images=picture, return_tensors="pt")
    return {name: _moved(loaded, tensor) for name, tensor in _taken(loaded, made).items()}


def _given(
    loaded: LoadedModel, processor: Any, picture: Any, texts: tuple[str, ...]
) -> tuple[dict[str, Tensor], tuple[Finding, ...]]:
    """The text as it is, else with the picture's token in front."""
    token = _token(loaded, processor)
    if token is None or any(token in text for text in texts):
        return _made(loaded, processor, picture, texts), ()
    refused: AttnError | None = None
    try:
        given = _made(loaded, processor, picture, texts)
        if _positions(loaded, processor, given).any():
            return given, ()
    except AttnError as error:
        refused = error
    written = _as_written(processor, token)
    try:
        given = _made(loaded, processor, picture, tuple(written + text for text in texts))
    except AttnError as error:
        if refused is not None and token not in refused.message:
            raise refused from error  # something else was wrong than that the token is missing
        raise
    said = f"the text has no {token}: {quoted(written)} was put in front of it"
    return given, (note("picture", said),)


def _made(
    loaded: LoadedModel, processor: Any, picture: Any, texts: tuple[str, ...]
) -> dict[str, Tensor]:
    several = len(texts) > 1
    more = {"padding": True} if several else {}
    with _reading(processor):
        made = processor(
            text=list(texts) if several else texts[0], images=picture, return_tensors="pt", **more
        )
        given = _taken(loaded, made)
    ids = given.get("input_ids")
    if ids is None or ids.ndim != 2 or len(ids) != len(texts) or not ids.numel():
        raise UnsupportedError(f"{type(processor).__name__} makes no token ids of this text")
    return given


def _reading(processor: Any) -> AbstractContextManager[None]:
    return processing(f"{type(processor).__name__} cannot make an input of this")


def _taken(loaded: LoadedModel, made: Mapping[str, Any]) -> dict[str, Tensor]:
    """What the forward has a parameter for, less what is only for training."""
    names = [name for name in made if loaded.takes(name) and name not in _TRAINING]
    given = {name: torch.as_tensor(made[name]) for name in names}
    if not given:
        raise UnsupportedError(
            f"the processor makes {', '.join(made)}, and {loaded.architecture} takes none of it"
        )
    return given


def _moved(loaded: LoadedModel, tensor: Tensor) -> Tensor:
    """On the model's device, numbers with a fraction in its precision."""
    return tensor.to(loaded.device, loaded.model.dtype if tensor.is_floating_point() else None)


def _check(loaded: LoadedModel, ids: Tensor) -> None:
    count, most = ids.shape[1], loaded.positions
    if most is not None and count > most:
        raise InputError(
            f"the picture and the text take {count:,} tokens and the model has {most:,} positions",
            hint="give a smaller picture or a shorter text",
        )
    rows, largest = _embeddings(loaded), int(ids.max())
    if rows is not None and largest >= rows:
        raise InputError(
            f"the processor makes the id {largest:,} and the model has {rows:,} embeddings",
            hint="is the tokenizer in the folder that of this model?",
        )


def _embeddings(loaded: LoadedModel) -> int | None:
    """How many ids the model has a row for, which its configuration need not say."""
    try:
        table = loaded.model.get_input_embeddings()
    except (NotImplementedError, AttributeError):  # of two towers
        return None
    return int(table.weight.shape[0]) if getattr(table, "weight", None) is not None else None


def _token(loaded: LoadedModel, processor: Any) -> str | None:
    """What stands for a picture in a text; None where nothing does."""
    said = getattr(processor, "image_token", None)
    said = getattr(said, "content", said)
    if isinstance(said, str) and said:
        return said
    mark = picture_token(loaded)
    token = None if mark is None else processor.tokenizer.convert_ids_to_tokens(mark)
    return token if isinstance(token, str) and token else None


def _as_written(processor: Any, token: str) -> str:
    """The token as the chat template writes it before words; alone where that cannot be told."""
    tokenizer = processor.tokenizer
    template = getattr(processor, "chat_template", None) or tokenizer.chat_template
    words = {"type": "text", "text": _PROBE}
    try:
        before = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": content}], chat_template=template, tokenize=False
            ).partition(_PROBE)[0]
            for content in ([{"type": "image"}, words], [words])
        ]
    except Exception:  # a template is a program of whoever wrote it
        return token
    start = _alike(*before)
    written = before[0][start : len(before[0]) - len(before[1]) + start]
    return str(written) if written.count(token) == 1 else token


def _alike(a: str, b: str) -> int:
    """How many characters two texts have in common from the left."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (mine, other) in pairs if mine != other), min(len(a), len(b)))


def _positions(loaded: LoadedModel, processor: Any, given: Mapping[str, Tensor]) -> Tensor:
    """(B, n): True where the model puts a position of the picture."""
    ids = given["input_ids"]
    said = (picture_token(loaded), getattr(processor, "image_token_id", None))
    marks = (ids == mark for mark in said if type(mark) is int)
    nowhere = torch.zeros_like(ids, dtype=torch.bool)
    found = next((mark for mark in marks if mark.any()), nowhere)
    masked = given.get("image_embeds_position_mask")
    return masked.bool() if masked is not None and not found.any() else found


def _labels(loaded: LoadedModel, processor: Any, given: Mapping[str, Tensor]) -> Labels:
    """A picture of one position keeps the name of its token: the model reads it elsewhere."""
    places = _positions(loaded, processor, given)
    return tuple(
        _row(processor.tokenizer, ids, place)
        for ids, place in zip(given["input_ids"].tolist(), places.tolist(), strict=True)
    )


def _row(tokenizer: Any, ids: list[int], of_picture: list[bool]) -> tuple[str, ...]:
    numbered, count, labels = sum(of_picture) > 1, 0, []
    for token_id, mine in zip(ids, of_picture, strict=True):
        labels.append(f"image {count}" if mine and numbered else _spelled(tokenizer, token_id))
        count += mine
    return tuple(labels)


def _spelled(tokenizer: Any, token_id: int) -> str:
    """The text of a token; as the vocabulary spells it where it is a part of a character."""
    text = str(tokenizer.decode([token_id], clean_up_tokenization_spaces=False)).strip()
    if text and "\ufffd" not in text:
        return text
    token = tokenizer.convert_ids_to_tokens(token_id)
    return f"#{token_id}" if token is None else str(token)
