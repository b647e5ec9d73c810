"""Probes of the mask: a token is changed, and what must not see it is held against before.

What may move is what the masks let the changed token reach: in every layer the queries that see it,
or see what has moved already. All other rows must have the lse they had, and the model the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.compare import RANK, Verdict
from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.core.results_model import MaskProbe

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs

Array = NDArray[Any]
ROUNDINGS = 64  # units in the last place of the largest number, as for the untouched model


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a run leaves to be compared: lse (B, H, L) of every call, outputs by name, eps."""

    lse: Mapping[CallPlace, Array]
    outputs: Mapping[str, Array]
    eps: float


@dataclass(frozen=True, slots=True)
class Spare:
    """Ids that may stand in for another: those of the vocabulary, some that mean more left out.

    An id of `fixed` stays where it is: it holds the place of a part of a picture or a sound, and a
    model wants as many of them as there are parts.
    """

    vocabulary: int
    avoid: frozenset[int] = frozenset()
    fixed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One probe: its name, the tensor that is given instead, and which positions (B, n) changed."""

    name: str
    words: str
    tensor: str
    given: Any
    changed: BoolArray


def changes(inputs: ModelInputs, spare: Spare) -> Iterator[Change]:
    """The last and the first real token of every item, and its padding, where there is any.

    Under a causal mask the last one must not move what is before it; the first one must not move
    what no chain of windows, or no document, lets it reach.
    """
    decoder = "decoder_input_ids" in inputs.tensors
    name = "decoder_input_ids" if decoder else "input_ids"
    if name not in inputs.tensors:
        return
    ids = inputs.tensors[name]
    mask = inputs.tensors.get("decoder_attention_mask" if decoder else "attention_mask")
    real = np.ones(tuple(ids.shape), bool)
    if mask is not None and tuple(mask.shape) == tuple(ids.shape):
        real = mask.detach().cpu().numpy() != 0
    of_text = real & ~np.isin(ids.detach().cpu().numpy(), sorted(spare.fixed))
    for probe_name, last in (("later token", True), ("first token", False)):
        where = _end(of_text, last=last)
        plain = np.array_equal(where, _end(real, last=last))
        yield _change(probe_name, name, ids, where, spare, plain=plain)
    pads = inputs.tensors.get("attention_mask")
    main = inputs.tensors.get("input_ids")
    if pads is not None and main is not None and tuple(pads.shape) == tuple(main.shape):
        padding = pads.detach().cpu().numpy() == 0
        if padding.any():
            yield _change("padding", "input_ids", main, padding, spare)


def _end(real: BoolArray, *, last: bool) -> BoolArray:
    """(B, n): True at the last or first real position of each item that has several."""
    place = real.shape[1] - 1 - real[:, ::-1].argmax(1) if last else real.argmax(1)
    several = real.sum(1) > 1
    end: BoolArray = (np.arange(real.shape[1]) == place[:, None]) & several[:, None]
    return end


def _change(
    name: str, tensor: str, ids: Any, where: BoolArray, spare: Spare, *, plain: bool = True
) -> Change:
    """Each changed id becomes the one half a vocabulary away; not `plain`: parts were passed."""
    from attn_cli.torch_arrays import to_tensor

    other = (ids + spare.vocabulary // 2) % spare.vocabulary
    for special in sorted(spare.avoid):
        other = other.where(other != special, (other + 1) % spare.vocabulary)
    given = other.where(to_tensor(where, ids.device), ids)
    count = int(where.sum())
    kind = "token" if plain else "token of text"
    which = {"later token": f"the last {kind}", "first token": f"the first {kind}"}
    of_each = " of each item" if ids.shape[0] > 1 else ""
    padding = f"{count:,} padding token{'s' if count > 1 else ''}"
    words = f"{which[name]}{of_each}" if name in which else padding
    return Change(name, words, tensor, given, where)


def reached(
    changed: BoolArray,
    calls: Sequence[CallFacts],
    visible: Callable[[CallFacts], BoolArray | None],
    *,
    recurrent: bool,
) -> BoolArray:
    """(B, n): the positions that the changed ones can move, through all layers of one sequence.

    `calls` are self-attention over that sequence. `recurrent`: other layers mix tokens as well,
    each taking from earlier positions alone.
    """
    moved: Any = np.maximum.accumulate(changed, axis=1) if recurrent else changed.copy()
    settled: set[int] = set()  # masks that let nothing more through than has moved
    for facts in calls:
        seen = visible(facts)
        if id(seen) in settled:
            continue
        wider = moved | _looking_at(moved, seen)
        settled = {id(seen)} | settled if (wider == moved).all() else set()
        moved = wider
    reach: BoolArray = moved
    return reach


def _looking_at(moved: BoolArray, seen: BoolArray | None) -> BoolArray:
    """(B, L): the queries that see one of the positions (B, S), by any head."""
    if seen is None:
        return np.broadcast_to(moved.any(1, keepdims=True), moved.shape)
    any_head = seen.any(1)  # (b, L, S)
    pairs = np.logical_and(any_head, moved[:, None])  # (B, L, S)
    return np.asarray(pairs.any(-1))


def probe(
    change: Change,
    before: Seen,
    after: Seen,
    calls: Sequence[CallFacts],
    held: Callable[[CallFacts], BoolArray],
    over: CallFacts,
) -> MaskProbe | None:
    """What moved among the rows (B, L) that `held` names of each call, and of the output.

    `over` is a call of the sequence in which a token changed: its rows are counted. None where
    nothing moved at all, so that the change tells nothing.
    """
    if all(np.array_equal(before.lse[f.place], after.lse[f.place], equal_nan=True) for f in calls):
        return None
    worst: Verdict = "identical"
    largest, first = 0.0, None
    for facts in calls:
        mask = np.broadcast_to(held(facts)[:, None], before.lse[facts.place].shape)
        verdict, gap, place = _held(
            before.lse[facts.place], after.lse[facts.place], mask, before.eps
        )
        largest = max(largest, gap)
        if verdict == "different" and first is None:
            first = (facts.place, place)
        worst = max(worst, verdict, key=RANK.index)
    for name, array in before.outputs.items():
        rows_of = held(over)
        if array.shape[:2] == rows_of.shape and array.ndim == 3:
            wide = np.broadcast_to(rows_of[:, :, None], array.shape)
            verdict, gap, _ = _held(array, after.outputs[name], wide, before.eps)
            largest, worst = max(largest, gap), max(worst, verdict, key=RANK.index)
    item, head, query = (None, None, None) if first is None else first[1]
    return MaskProbe(
        name=change.name,
        changed=change.words,
        held=int(held(over).sum()),
        verdict=worst,
        max_abs=largest,
        place=None if first is None else first[0],
        item=item,
        head=head,
        query=query,
    )


def _held(
    a: Array, b: Array, rows: BoolArray, eps: float
) -> tuple[Verdict, float, tuple[int, int, int]]:
    """The verdict of a (B, H, L) array, how far it moved, and where it moved most."""
    same = ~rows | (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return "identical", 0.0, (0, 0, 0)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
    size = float(np.abs(np.where(rows & np.isfinite(a), a, 0.0)).max())
    far = float(gap.max())
    # The first row that moved is the one to look at: later ones may only follow it.
    limit = ROUNDINGS * eps * max(size, 1e-30)
    if far <= limit:
        return "rounding", far, (0, 0, 0)
    item, head, query = np.argwhere(gap > limit)[0][:3].tolist()
    return "different", far, (item, head, query)
