"""A folder of config.json and safetensors → Checkpoint, from the configuration and the headers."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attn_cli.core.checkpoint import Checkpoint
from attn_cli.errors import InputError
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.source import naming
from attn_cli.models.checkpoint.config_file import known_name, read_object
from attn_cli.models.checkpoint.coverage import coverage
from attn_cli.models.checkpoint.families import COMPOSITES, FAMILIES
from attn_cli.models.checkpoint.fields import MOST_POSITIONS, WORDS
from attn_cli.models.checkpoint.parts import parts_of
from attn_cli.models.checkpoint.stack_reader import Reading, read_stack
from attn_cli.models.checkpoint.unknown import read_unknown
from attn_cli.models.checkpoint.weights import Weights, read_weights

CONFIG = "config.json"


def read_checkpoint(folder: str) -> Checkpoint:
    """The attention layers of a checkpoint, held against the tensors that its headers describe.

    `model.safetensors`, or shards by `model.safetensors.index.json`; no tensor data is read. What
    does not fit is in `problems`. A model_type that is not known: `known` is False, and the layers
    are what the usual names of fields and tensors give. InputError for a folder without
    config.json, and for files that are cut off, impossible or no JSON.
    """
    path = _folder(folder)
    config = read_object(path / CONFIG)
    weights = read_weights(path)
    with naming(str(path / CONFIG)):
        parts, unread = parts_of(config)
        readings = [read_stack(part.stack, part.fields, weights) for part in parts]
        if not parts:
            readings = [read_unknown(config, weights)]
    return _checkpoint(
        folder, config, weights, readings, unread=unread, known=bool(parts) and not unread
    )


def _checkpoint(
    source: str,
    config: Mapping[str, Any],
    weights: Weights,
    readings: list[Reading],
    *,
    unread: list[str],
    known: bool,
) -> Checkpoint:
    layers = tuple(layer for reading in readings for layer in reading.layers)
    problems = [*weights.problems, *(each for reading in readings for each in reading.problems)]
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    return Checkpoint(
        source=source,
        model_type=known_name(config.get("model_type")),
        architecture=known_name(first),
        known=known,
        dtype=weights.dtype or _dtype(config) or "float32",
        says=(*_strange(config, unread), *_says(config, weights)),
        max_positions=_positions(config),
        layers=layers,
        problems=tuple(problems),
        tensors=len(weights.tensors),
        parameters=weights.parameters,
        bytes=weights.bytes,
        files=weights.files,
        coverage=coverage(layers, readings, weights, known=known),
    )


def _strange(config: Mapping[str, Any], unread: list[str]) -> Iterator[str]:
    """The model_types that are not known, of the whole or of a part, with one that may be meant."""
    for name in unread:
        part = config.get(name)
        kind = known_name((part if isinstance(part, dict) else config).get("model_type"))
        where = f"{name}: " if isinstance(part, dict) else ""
        if not kind:
            yield f"{where}there is no model_type, so its tensors are held against nothing"
            continue
        near = difflib.get_close_matches(kind, (*FAMILIES, *COMPOSITES), n=1, cutoff=0.8)
        meant = f" (did you mean {near[0]}?)" if near else ""
        said = f"the model_type {quoted(kind)} is not known{meant}"
        yield f"{where}{said}, so its tensors are held against nothing"


def _says(config: Mapping[str, Any], weights: Weights) -> Iterator[str]:
    """Which of two precisions counts."""
    said = _dtype(config)
    if said and weights.dtype and said != weights.dtype:
        yield (
            f"config.json says {said}, and most numbers of the tensors are {weights.dtype}, which "
            "is what counts here; --dtype counts another"
        )


def _dtype(config: Mapping[str, Any]) -> str:
    """The dtype that a configuration names; empty where it names none."""
    text = config.get("text_config")
    for values in (config, text if isinstance(text, dict) else {}):
        for name in ("dtype", "torch_dtype"):
            if said := known_name(values.get(name)):
                return said.removeprefix("torch.")
    return ""


def _positions(config: Mapping[str, Any]) -> int | None:
    """The longest sequence of the text, where a configuration has a plain number for it."""
    text = config.get("text_config")
    for values in (config, text if isinstance(text, dict) else {}):
        for name in WORDS["positions"]:
            value = values.get(name)
            if type(value) is int and 0 < value <= MOST_POSITIONS:
                return value
    return None


def _folder(folder: str) -> Path:
    """The path of a folder that holds config.json; InputError says what is there instead."""
    path = Path(folder)
    with naming(folder):
        if not folder or "\0" in folder:
            raise InputError("no folder can have this name")
        if not path.exists():
            raise InputError("no such folder")
        if not path.is_dir():
            raise InputError("is not a folder", hint="give the folder that holds config.json")
        if not (path / CONFIG).exists() and not (path / CONFIG).is_symlink():
            raise InputError(f"holds no {CONFIG}", hint=_instead(path))
    return path


def _instead(path: Path) -> str:
    names = sorted(each.name for each in path.iterdir())[:6]
    return f"it holds {listed(names)}" if names else "the folder is empty"
