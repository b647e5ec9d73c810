"""Selection: which batch items, heads and queries are shown; never what is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import Stage
from attn_cli.errors import InputError

PAIRS_SHOWN = 8  # (item, head) pairs drawn when nobody has chosen


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen indices, checked against the run; `chosen` says that heads or items were named."""

    items: tuple[int, ...]
    heads: tuple[int, ...]
    queries: tuple[int, ...]
    chosen: bool

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Every chosen (item, head)."""
        return tuple((item, head) for item in self.items for head in self.heads)

    @property
    def axes(self) -> dict[str, tuple[int, ...]]:
        """The chosen indices by the name of their axis."""
        return {"batch": self.items, "head": self.heads, "query": self.queries}

    @property
    def drawn(self) -> tuple[tuple[int, int], ...]:
        """The pairs that the screen draws: all that were named, else the first few."""
        return self.pairs if self.chosen else self.pairs[:PAIRS_SHOWN]


def select(
    inputs: AttentionInputs,
    *,
    items: tuple[int, ...] | None,
    heads: tuple[int, ...] | None,
    queries: tuple[int, ...] | None,
) -> Selection:
    """What `--item`, `--head` and `--query` select; InputError for an index that is not there."""
    batch, n_heads, length, _ = inputs.shape
    return Selection(
        items=checked("item", "--item", items, batch),
        heads=checked("head", "--head", heads, n_heads),
        queries=checked("query", "--query", queries, length),
        chosen=items is not None or heads is not None,
    )


def checked(what: str, option: str, wanted: tuple[int, ...] | None, size: int) -> tuple[int, ...]:
    """The wanted indices in order, all where none are named; InputError where one is not there."""
    if wanted is None:
        return tuple(range(size))
    for index in wanted:
        if not 0 <= index < size:
            raise InputError(
                f"there is no {what} {index}: this run has {size}",
                hint=f"give {option} a number from 0 to {size - 1}",
            )
    return tuple(sorted(set(wanted)))


def narrowed(stage: Stage, chosen: Mapping[str, tuple[int, ...]]) -> Stage:
    """The stage at the chosen indices of its axes; k and v keep their heads, which are shared."""
    array = stage.array
    shared = "key" in stage.axes and "query" not in stage.axes
    for axis, name in enumerate(stage.axes):
        if name in chosen and (name == "batch" or not shared):
            array = array.take(chosen[name], axis)
    return replace(stage, array=array)
