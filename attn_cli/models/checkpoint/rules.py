"""Rules: settings of a layer that follow from more than one field, as families write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attn_cli.errors import InputError
from attn_cli.models.checkpoint.family import At, Real, Whole, Word
from attn_cli.models.checkpoint.fields import Fields
from attn_cli.models.checkpoint.sizes import Size

SLIDING = ("sliding_attention", "chunked_attention", "local")


def always(word: str | None) -> Word:
    """The same word for every layer."""
    return lambda at: word


def listed(*names: str, otherwise: Word = always("attention")) -> Word:
    """The word that a list of the configuration has for the layer: layer_types[i].

    InputError where the list is shorter than the layers, or holds something else than strings.
    """

    def rule(at: At) -> str | None:
        for name in names:
            if words := at.fields.items(name):
                return _word(name, words, at)
        return otherwise(at)

    return rule


def repeated(name: str) -> Word:
    """The word of a pattern that repeats over the layers: block_types[i mod length]."""

    def rule(at: At) -> str | None:
        words = at.fields.items(name)
        return str(words[at.index % len(words)]) if words else "attention"

    return rule


def _word(name: str, words: list[Any], at: At) -> str:
    if len(words) < at.count:
        raise InputError(
            f"{at.fields.place}has {len(words)} {name} for {at.count} layers: expected one a layer"
        )
    word = words[at.index]
    if not isinstance(word, str):
        raise InputError(f"{at.fields.place}has a {name} that is no string at layer {at.index}")
    return word


def every(name: str, *, last: bool = True, full: int = 0) -> Word:
    """Full attention in one layer of `name` (or of `full`), the last of each, else the first."""

    def rule(at: At) -> str | None:
        step = at.fields.count(name) if name else full
        step = step or full
        if not step:
            return "full_attention"
        hit = (at.index + 1) % step == 0 if last else at.index % step == 0
        return "full_attention" if hit else "sliding_attention"

    return rule


def period(step: str, offset: str, *, hit: str = "attention", miss: str = "mamba") -> Word:
    """`hit` in every layer whose number is `offset` modulo `step`."""

    def rule(at: At) -> str | None:
        size, start = at.fields.count(step) or 1, at.fields.count(offset) or 0
        return hit if at.index % size == start else miss

    return rule


def sliding(name: str = "sliding_window", *, flag: str = "") -> Whole:
    """The window of a layer that the configuration calls sliding, unless `flag` is false."""

    def rule(at: At) -> int | None:
        if at.word not in SLIDING or (flag and not at.fields.flag(flag)):
            return None
        return at.fields.count(name)

    return rule


def everywhere(name: str = "sliding_window") -> Whole:
    """The same window in every layer."""
    return lambda at: at.fields.count(name)


def from_layer(name: str) -> Word:
    """Sliding from a layer on, where use_sliding_window is true."""

    def rule(at: At) -> str | None:
        start = at.fields.count(name) or 0
        slides = at.fields.flag("use_sliding_window") and at.index >= start
        return "sliding_attention" if slides else "full_attention"

    return rule


def number(name: str) -> Real:
    """A field as it stands: a softcap, a scale."""
    return lambda at: at.fields.number(name)


def constant(value: float) -> Real:
    """The same number for every layer, whatever the configuration says."""
    return lambda at: value


def inverse_root(name: str) -> Real:
    """1 / √field: the scale of Gemma 2's query_pre_attn_scalar."""

    def rule(at: At) -> float | None:
        value = at.fields.number(name)
        if value is None:
            return None
        if value <= 0:
            raise InputError(f"{at.fields.place}has {name} {value:g}: expected a positive number")
        return float(value**-0.5)

    return rule


def either(flag: str, yes: str | None, no: str | None) -> Word:
    """One of two words by a true-or-false field."""
    return lambda at: yes if at.fields.flag(flag) else no


def chosen(name: str, words: dict[str, str | None], otherwise: str | None) -> Word:
    """The word that stands for what a text field says."""
    return lambda at: words.get(at.fields.text(name), otherwise)


def same_field(name: str) -> Callable[[Fields], Size | None]:
    """A size by the name of its field."""
    return lambda fields: fields.size(name)
