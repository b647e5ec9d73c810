"""The configuration of a model: out of a folder, or from the hub by name."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from attn_cli.errors import InputError, UnsupportedError
from attn_cli.formats.names import listed, printable, quoted
from attn_cli.models.checkpoint.config_file import known_name, read_object
from attn_cli.models.checkpoint.fields import MOST_LAYERS, WORDS
from attn_cli.models.hf.extra import transformers
from attn_cli.models.hf.hub import fetched
from attn_cli.models.hf.loading_errors import not_trusted, refusals
from attn_cli.models.hf.options import LoadOptions
from attn_cli.models.hf.source import Source

CONFIG = "config.json"


def read_config(options: LoadOptions) -> tuple[Source, Any]:
    """The model's folder, fetched where it is a name on the hub, and its configuration.

    InputError for a folder that is not there or holds no config.json, for a name that the hub does
    not know, and for a file that is no such thing; UnsupportedError where the model needs code of
    its own, or is unknown.
    """
    source = find_source(options)
    written = read_object(source.folder / CONFIG)
    _check(written, source, trusted=options.trust_remote_code)
    _check_layers(written, source)
    own = isinstance(written.get("auto_map"), dict) and not options.trust_remote_code
    source = replace(source, own_code=own)
    with warnings.catch_warnings(), refusals(source):
        warnings.simplefilter("ignore")
        config = transformers().AutoConfig.from_pretrained(
            str(source.folder), trust_remote_code=options.trust_remote_code
        )
    return source, config


def _check_layers(config: dict[str, Any], source: Source) -> None:
    """InputError for more layers than anybody builds: transformers would set out to make them."""
    for part in (config, *(each for each in config.values() if isinstance(each, dict))):
        for name in WORDS["layers"]:
            number = part.get(name)
            if type(number) is int and number > MOST_LAYERS:
                raise InputError(
                    f"{printable(source.name)}: {CONFIG} has {name} {number:,}, and the most that "
                    f"is read is {MOST_LAYERS:,}"
                )


def find_source(options: LoadOptions) -> Source:
    """The folder as given; else that of a name on the hub, with weights where they are wanted."""
    folder = _folder(options.source)
    if folder is not None:
        return Source(options.source, folder)
    trusted, drawn = options.trust_remote_code, options.random_weights
    folder = fetched(options.source, code=trusted, weights=not drawn)
    if not (folder / CONFIG).exists():
        raise InputError(f"{printable(options.source)}: on the hub it holds no {CONFIG}")
    return Source(options.source, folder, commit=folder.name)


def _folder(source: str) -> Path | None:
    """The folder of a source; None where it can only be a name on the hub."""
    if not source or "\0" in source:
        raise InputError("no folder or model can have this name")
    path = Path(source)
    if path.is_dir():
        if not (path / CONFIG).exists():
            raise InputError(f"{printable(source)}: holds no {CONFIG}", hint=_instead(path))
        return path
    if path.exists():
        raise InputError(
            f"{printable(source)}: is not a folder", hint=f"give the folder that holds {CONFIG}"
        )
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise InputError(f"{printable(source)}: no such folder")
    return None


def _check(config: dict[str, Any], source: Source, *, trusted: bool) -> None:
    """UnsupportedError for a model that needs its own code, or that nobody knows."""
    kind = known_name(config.get("model_type"))
    known = transformers().models.auto.configuration_auto.CONFIG_MAPPING
    if kind in known:
        return
    if isinstance(config.get("auto_map"), dict):
        if trusted:
            return
        raise not_trusted(source, "model")
    if not kind:
        raise InputError(f"{printable(source.name)}: {CONFIG} has no model_type")
    near = difflib.get_close_matches(kind, list(known), n=1, cutoff=0.8)
    raise UnsupportedError(
        f"{printable(source.name)}: transformers {transformers().__version__} does not know "
        f"the model_type {quoted(kind)}",
        hint=f"did you mean {near[0]}?" if near else "is transformers new enough?",
    )


def _instead(path: Path) -> str:
    names = sorted(each.name for each in path.iterdir())[:6]
    there = f"here there is {listed(names)}" if names else "this one is empty"
    return f"give the folder that holds {CONFIG} and the weights; {there}"
