"""Parts: the towers that a configuration describes, each with its own fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from attn_cli.errors import InputError
from attn_cli.models.checkpoint.families import ALIASES, COMPOSITES, FAMILIES
from attn_cli.models.checkpoint.families.composites import PICTURES
from attn_cli.models.checkpoint.families.defaults import DEFAULTS
from attn_cli.models.checkpoint.family import TEXT, Stack
from attn_cli.models.checkpoint.fields import Fields

# A model that is not known may still be made of parts that are.
_USUAL = {
    "text_config": ("text", TEXT, ""),
    "llm_config": ("text", TEXT, ""),
    "vision_config": ("vision", PICTURES, ""),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One tower, and the fields that describe it."""

    stack: Stack
    fields: Fields


def parts_of(config: Mapping[str, Any]) -> tuple[list[Part], list[str]]:
    """The towers of a known model in order, and the names of its parts that are not known."""
    kind = config.get("model_type")
    kind = kind if isinstance(kind, str) else ""
    if kind in COMPOSITES:
        return _composite(config, COMPOSITES[kind].parts)
    if kind in FAMILIES:
        return _single(kind, config, ""), []
    parts, unread = _composite(config, _USUAL)
    return parts, [*unread, kind]


def _single(kind: str, config: Mapping[str, Any], place: str) -> list[Part]:
    """The towers of one family, with its defaults and names for sizes."""
    defaults = DEFAULTS.get(kind, {})
    where = f"{place}: " if place else ""
    return [
        Part(stack, Fields(config, defaults, stack.words, where)) for stack in FAMILIES[kind].stacks
    ]


def _composite(
    config: Mapping[str, Any], parts: Mapping[str, tuple[str, str, str]]
) -> tuple[list[Part], list[str]]:
    """The towers of the parts that are there; an older file has its text's fields at the root."""
    found: list[Part] = []
    unread: list[str] = []
    for name, (tower, within, assumed) in parts.items():
        values = config.get(name)
        if values is None and name == "text_config" and assumed:
            values = {**config, "model_type": assumed}
        if values is None:
            continue
        if not isinstance(values, dict):
            raise InputError(f"has a {name} that is no object")
        kind = _family_of(values.get("model_type"), assumed)
        if kind not in FAMILIES:
            unread.append(name)
            continue
        found += [_placed(part, tower, within) for part in _single(kind, values, name)]
    return found, unread


def _family_of(said: Any, assumed: str) -> str:
    kind = said if isinstance(said, str) and said else assumed
    return ALIASES.get(kind, kind) if kind not in FAMILIES or kind in ALIASES else kind


def _placed(part: Part, tower: str, within: str) -> Part:
    """A tower as one of several: with the name of its part, behind the prefix of that part."""
    name = f"{tower} {part.stack.name}".strip()
    return Part(replace(part.stack, name=name, within=within), part.fields)
