"""read_inputs(): texts, a file of tokens, ids, a picture or a drawing → ModelInputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attn_cli.errors import InputError
from attn_cli.formats.json_file import unique
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.source import naming
from attn_cli.formats.text_file import decode
from attn_cli.models.hf.drawing import drawn_inputs
from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids, with_decoder
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.options import InputOptions
from attn_cli.models.hf.pictures import (
    check_picture,
    picture_alone,
    picture_and_texts,
    picture_beside,
)
from attn_cli.models.hf.tokens import Encoded, Tokenizer

LARGEST_FILE = 64 << 20
_WAYS = {
    "texts": "--text",
    "text_file": "--text-file",
    "tokens_file": "--tokens",
    "input_ids": "--input-ids",
    "drawn": "--length",
}


def read_inputs(loaded: LoadedModel, options: InputOptions) -> ModelInputs:
    """What the model is given, checked against what it takes.

    InputError for nothing or more than one thing, text without a tokenizer, tokens that are not in
    the vocabulary, a text longer than the positions, a picture for a model of text.
    """
    ways = _ways(options)
    if len(ways) > 1:
        raise InputError(f"{' and '.join(_WAYS[way] for way in ways)} say the same: give one")
    if options.image is not None:
        return _picture(loaded, options, options.image)
    if not ways:
        raise InputError(f"the model has no input: give {_expected(loaded)}")
    if ways == ["drawn"]:
        return drawn_inputs(loaded, options.drawn or 0, options.seed)
    if loaded.kind in ("vision", "speech"):
        raise InputError(f"{loaded.architecture} reads no text", hint=f"give {_expected(loaded)}")
    return _text(loaded, options)


def _ways(options: InputOptions) -> list[str]:
    return [name for name in _WAYS if getattr(options, name) not in ((), None)]


def _picture(loaded: LoadedModel, options: InputOptions, source: str) -> ModelInputs:
    """A picture alone, or beside words: by the model's own processor where they are a text."""
    if options.drawn is not None:
        raise InputError(
            "--image and --length say the same: give one",
            hint="leave --length out, and give --text where the model reads text",
        )
    count = len(_rows(loaded, options)) if loaded.kind == "image-text" else len(_ways(options))
    check_picture(loaded, source, count)
    if loaded.kind == "vision":
        return _under(loaded, picture_alone(loaded, source), options)
    texts = texts_of(options)
    made = picture_and_texts(loaded, source, texts) if texts else None
    if made is not None:
        return _under(loaded, made, options)
    return picture_beside(loaded, source, _text(loaded, options))


def _expected(loaded: LoadedModel) -> str:
    ways = {
        "vision": "--image",
        "image-text": "--text, with --image for a picture",
        "speech": "--length, which draws a sound",
    }
    return ways.get(loaded.kind, "--text, --tokens or --input-ids")


def _text(loaded: LoadedModel, options: InputOptions) -> ModelInputs:
    """Text of any way, and the decoder's where there is one."""
    rows = _rows(loaded, options)
    made = inputs_of_ids(
        loaded, [row.ids for row in rows], labels=tuple(row.labels for row in rows)
    )
    made = _under(loaded, made, options)
    notes = () if loaded.tokenizer is None or options.input_ids else loaded.tokenizer.notes
    return replace(made, notes=notes)


def _under(loaded: LoadedModel, inputs: ModelInputs, options: InputOptions) -> ModelInputs:
    """With the decoder's text, or its start token; as it is where there is no decoder."""
    rows = _decoder(loaded, options, inputs.batch)
    if rows is None:
        return with_decoder(loaded, inputs)
    labels = tuple(row.labels for row in rows)
    return with_decoder(loaded, inputs, decoder=[row.ids for row in rows], labels=labels)


def texts_of(options: InputOptions) -> tuple[str, ...]:
    """The texts of the input; none where it came as tokens, ids or a picture."""
    return options.texts if options.text_file is None else (read_text(options.text_file),)


def _rows(loaded: LoadedModel, options: InputOptions) -> list[Encoded]:
    if options.input_ids:
        return [_labelled(loaded.tokenizer, ids) for ids in options.input_ids]
    tokenizer = _needed(loaded)
    if options.tokens_file is not None:
        return [_of_tokens(tokenizer, row) for row in read_tokens(options.tokens_file)]
    return [tokenizer.encode(text) for text in texts_of(options)]


def _decoder(loaded: LoadedModel, options: InputOptions, count: int) -> list[Encoded] | None:
    if not (options.decoder_texts or options.decoder_ids):
        return None
    if not loaded.config.is_encoder_decoder:
        raise InputError(f"{loaded.architecture} has no decoder of its own to give a text to")
    if options.decoder_ids:
        rows = [_labelled(loaded.tokenizer, ids) for ids in options.decoder_ids]
    else:
        rows = [_needed(loaded).encode(text) for text in options.decoder_texts]
    if len(rows) != count:
        raise InputError(
            f"there are {count} texts and {len(rows)} for the decoder: expected as many"
        )
    return rows


def _needed(loaded: LoadedModel) -> Tokenizer:
    if loaded.tokenizer is None:
        raise InputError(
            f"{loaded.source}: there is no tokenizer to cut a text with",
            hint="give --input-ids, or put the tokenizer's files into the folder",
        )
    return loaded.tokenizer


def _labelled(tokenizer: Tokenizer | None, ids: Sequence[int]) -> Encoded:
    labels = (f"#{i}" if tokenizer is None else tokenizer.label(i) for i in ids)
    return Encoded(tuple(ids), tuple(labels))


def _of_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> Encoded:
    ids = [tokenizer.id_of(token) for token in tokens]
    unknown = [token for token, found in zip(tokens, ids, strict=True) if found is None]
    if unknown:
        raise InputError(f"the vocabulary has no token {listed(unknown)}")
    return Encoded(tuple(i for i in ids if i is not None), tuple(tokens))


def read_tokens(source: str) -> list[list[str]]:
    """The rows of a JSON file: a list of tokens, or a list of such lists."""
    text = read_text(source)  # which names the file itself
    with naming(source):
        try:
            value: Any = json.loads(text, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise InputError(f"is not valid JSON: {error}") from error
        rows = (
            value if isinstance(value, list) and all(isinstance(x, list) for x in value) else None
        )
        rows = [value] if rows is None else rows
        if not rows or not all(isinstance(row, list) and row and _words(row) for row in rows):
            raise InputError('expected a list of tokens, ["a", "b"], or a list of such lists')
        return rows


def _words(row: list[Any]) -> bool:
    return all(isinstance(each, str) for each in row)


def read_text(source: str) -> str:
    """The whole text of a file; InputError for a folder, a file that is empty or far too long."""
    with naming(source):
        path = Path(source)
        if not path.is_file():
            odd = "is no regular file" if path.exists() else "no such file"
            raise InputError("is a folder" if path.is_dir() else odd)
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"is longer than {LARGEST_FILE:,} bytes")
        text = decode(path.read_bytes())
        if not text.strip():
            raise InputError(f"holds no text ({quoted(text)})" if text else "the file is empty")
        return text
