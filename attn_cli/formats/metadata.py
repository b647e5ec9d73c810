"""Settings, tokens and axes as the strings that travel with arrays in one file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_cli.core.findings import Finding, note
from attn_cli.formats.names import listed
from attn_cli.formats.nested import as_texts

RESERVED = frozenset({"settings", "axes"})


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is said of the arrays of a file."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def pack(
    settings: Mapping[str, Any],
    texts: Mapping[str, Any],
    axes: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Each as a JSON string: "settings", "axes", and one for every list of tokens."""
    strings = {name: json.dumps(words) for name, words in texts.items()}
    if settings:
        strings["settings"] = json.dumps(dict(settings))
    if axes:
        strings["axes"] = json.dumps({name: list(words) for name, words in axes.items()})
    return strings


def unpack(strings: Mapping[str, str]) -> Metadata:
    """The reverse of `pack`. Strings of other programs are left alone.

    A note names "settings", "tokens" and "context_tokens" that are not what they should be.
    """
    values = {name: _value(text) for name, text in strings.items()}
    settings = values.pop("settings", {})
    axes = values.pop("axes", {})
    texts = {name: value for name, value in values.items() if _is_texts(value)}
    known = ["tokens", "context_tokens"]
    odd = [name for name in known if name in values and name not in texts]
    if not isinstance(settings, dict):
        odd.insert(0, "settings")
        settings = {}
    findings = (_not_read(odd),) if odd else ()
    return Metadata(settings, texts, _axes(axes), findings)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and as_texts(value) is not None


def _axes(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        return {}
    named = {name: words for name, words in value.items() if isinstance(words, list)}
    return {
        name: tuple(words)
        for name, words in named.items()
        if all(isinstance(word, str) for word in words)
    }


def _not_read(names: list[str]) -> Finding:
    return note(
        "ignored-metadata", f"not read, since they are not what attn writes: {listed(names)}"
    )
