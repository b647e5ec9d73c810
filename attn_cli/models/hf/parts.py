"""Parts of a call: one item of a batch and some of its heads, so that a block has rows enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from attn_cli.models.hf.call import AttentionCall, wide


def parts_of(
    call: AttentionCall, *, at_once: int, rows: int
) -> Iterator[tuple[AttentionCall, slice, slice]]:
    """Parts, and their items and heads, `rows` of whose rows are about `at_once` scores.

    The call itself where all of it is no more than that. Keys of a part are widened and laid side
    by side once, and not for every block of its rows.
    """
    facts = call.facts
    fits = max(1, at_once // max(1, min(rows, facts.queries) * facts.keys))  # heads
    if facts.batch * facts.heads <= fits:
        yield call, slice(0, facts.batch), slice(0, facts.heads)
        return
    for item in range(facts.batch):
        for heads in _heads(facts.heads, call.group, fits):
            items = slice(item, item + 1)
            yield _part(call, items, heads), items, heads


def _heads(count: int, group: int, fits: int) -> Iterator[slice]:
    """Heads in order, whole groups of those that share a key/value head, or within one group."""
    step = fits // group * group or fits
    within = count if step >= group else group
    for first in range(0, count, within):
        for start in range(first, first + within, step):
            yield slice(start, min(start + step, first + within))


def _part(call: AttentionCall, items: slice, heads: slice) -> AttentionCall:
    shared = slice(heads.start // call.group, -(-heads.stop // call.group))

    def own(tensor: Tensor | None) -> Tensor | None:
        """What an axis of 1 has for all, it has for these."""
        if tensor is None:
            return None
        tensor = tensor if tensor.shape[0] == 1 else tensor[items]
        return tensor if tensor.shape[1] == 1 else tensor[:, heads]

    return replace(
        call,
        facts=replace(
            call.facts,
            batch=items.stop - items.start,
            heads=heads.stop - heads.start,
            kv_heads=None if call.k is None else shared.stop - shared.start,
        ),
        q=None if call.q is None else call.q[items, heads],
        k=None if call.k is None else wide(call.k[items, shared]).contiguous(),
        v=None if call.v is None else call.v[items, shared],
        mask=own(call.mask),
        sinks=own(call.sinks),
        position_bias=own(call.position_bias),
        masked=own(call.masked),
        weights=own(call.weights),
        context=own(call.context),
    )
