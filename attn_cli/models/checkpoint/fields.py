"""Fields: a configuration's values, each checked when it is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attn_cli.errors import InputError
from attn_cli.formats.names import quoted
from attn_cli.models.checkpoint.sizes import Size

LARGEST = 1 << 20  # of any width: what is larger is a slip, and no file holds it
MOST_LAYERS = 10_000
MOST_POSITIONS = 1 << 40

# attn's word for a size → what configurations call it; the first that is there counts.
WORDS: Mapping[str, tuple[str, ...]] = {
    "heads": (
        "num_attention_heads",
        "n_head",
        "n_heads",
        "num_heads",
        "attention_heads",
        "encoder_attention_heads",
    ),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv"),
    "d_model": ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "embed_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    "d_k": ("head_dim", "d_kv", "attention_head_dim", "kv_channels"),
    "positions": (
        "max_position_embeddings",
        "n_positions",
        "n_ctx",
        "max_seq_len",
        "seq_length",
        "max_target_positions",
    ),
}


@dataclass(frozen=True, slots=True)
class Fields:
    """The values of one (part of a) configuration, over what its family assumes where it is silent.

    `words` renames sizes for one stack: {"heads": ("decoder_attention_heads",)}. A field that is
    there as null is absent, and its default does not count: that is how null is meant.
    InputError names a field whose value is of another kind or out of range.
    """

    values: Mapping[str, Any]
    defaults: Mapping[str, Any]
    words: Mapping[str, tuple[str, ...]]
    place: str = ""

    def found(self, *names: str) -> tuple[str, Any] | None:
        """The first of `names` with a value, and the value; a name may be a path, "a.b"."""
        there = [(name, _at(self.values, name)) for name in names]
        for name, (_, value) in there:
            if value is not None:
                return name, value
        if any(present for _, (present, _) in there):
            return None
        known = ((name, _at(self.defaults, name)[1]) for name in names)
        return next(((name, value) for name, value in known if value is not None), None)

    def size(self, word: str, *, least: int = 1, most: int = LARGEST) -> Size | None:
        """The size that attn calls `word`, else the one of a field of this name."""
        entry = self.found(*(self.words.get(word) or WORDS.get(word) or (word,)))
        if entry is None:
            return None
        name, value = entry
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name, value, f"a whole number from {least} to {most:,}")
        return Size(value, name, name)

    def needed(self, word: str, *, most: int = LARGEST) -> Size:
        """The size that attn calls `word`; InputError where the configuration has none."""
        size = self.size(word, most=most)
        if size is None:
            names = self.words.get(word) or WORDS.get(word) or (word,)
            raise InputError(f"{self.place}lacks {names[0]}", hint="is it the whole file?")
        return size

    def number(self, name: str) -> float | None:
        """A finite number."""
        entry = self.found(name)
        if entry is None:
            return None
        value = entry[1]
        if type(value) not in (int, float) or not math.isfinite(_as_float(value)):
            raise self._wrong(name, value, "a number")
        return float(value)

    def count(self, name: str) -> int | None:
        """A whole number that is not negative, such as a window; null and −1 stand for none."""
        entry = self.found(name)
        if entry is None or entry[1] == -1:
            return None
        value = entry[1]
        if type(value) is not int or not 0 <= value <= MOST_POSITIONS:
            raise self._wrong(name, value, "a whole number that is not negative")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false where nothing is said."""
        entry = self.found(name)
        if entry is None:
            return False
        if not isinstance(entry[1], bool):
            raise self._wrong(name, entry[1], "true or false")
        return entry[1]

    def text(self, name: str) -> str:
        """A string; empty where nothing is said."""
        entry = self.found(name)
        if entry is None:
            return ""
        if not isinstance(entry[1], str):
            raise self._wrong(name, entry[1], "a string")
        return entry[1]

    def items(self, name: str) -> list[Any]:
        """A list; empty where nothing is said."""
        entry = self.found(name)
        if entry is None:
            return []
        if not isinstance(entry[1], list):
            raise self._wrong(name, entry[1], "a list")
        return entry[1]

    def _wrong(self, name: str, value: Any, expected: str) -> InputError:
        came = quoted(value) if isinstance(value, str) else quoted(repr(value))[1:-1]
        return InputError(f"{self.place}has {name} {came}: expected {expected}")


def _at(values: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a path of names is there, and what stands at it."""
    first, _, rest = path.partition(".")
    if first not in values:
        return False, None
    value = values[first]
    if not rest:
        return True, value
    return _at(value, rest) if isinstance(value, dict) else (False, None)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
