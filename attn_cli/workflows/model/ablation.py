"""ablation: how a model's output moves when no query may look at some tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_ablation import Ablation, LayerAblation, Movement
from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.core.model_flow import TokenPlace
from attn_cli.core.model_heads import tower
from attn_cli.errors import InputError
from attn_cli.workflows.model.movement import movement
from attn_cli.workflows.model.sequences import Labels, Marked, Name, real_of, sequences

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs
    from attn_cli.models.hf.loaded import LoadedModel
    from attn_cli.models.hf.pair_weights import PairSums

OUTPUTS = ("logits", "last_hidden_state")  # what is compared, the first that is there


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Taken:
    """The model, what it read, its outputs before, and what is taken away."""

    loaded: LoadedModel
    inputs: ModelInputs
    outputs: Mapping[str, Any]
    asked: str
    tokens: tuple[TokenPlace, ...]
    marked: Marked

    @property
    def output(self) -> str:
        """The output that is compared, by its name."""
        floating = [name for name, t in self.outputs.items() if t.dtype.is_floating_point]
        return next((name for name in OUTPUTS if name in floating), floating[0])


def ablation(
    taken: Taken,
    calls: Sequence[CallFacts],
    weights: Mapping[CallPlace, PairSums],
    tell: Callable[[str], None],
) -> Ablation:
    """All layers at once, then each call that has the tokens among its keys by itself."""
    there = [facts for facts in calls if facts.place in weights]
    if not there:
        raise InputError(f"--ablate-key: no shown layer has a key {taken.asked}")
    rows, labels = _rows(taken)
    layers = []
    for number, facts in enumerate(there, 1):
        tell(f"taking the token away, layer {number:,} of {len(there):,}")
        moved = _without(taken, rows, labels, frozenset({facts.place}))
        layers.append(_layer(facts, weights[facts.place], moved))
    return Ablation(
        asked=taken.asked,
        tokens=taken.tokens,
        output=taken.output,
        everywhere=_without(taken, rows, labels, None),
        layers=tuple(layers),
    )


def _without(
    taken: Taken, rows: BoolArray, labels: Labels | None, only: frozenset[CallPlace] | None
) -> Movement:
    from attn_cli.models.hf.ablating import KeyAblation
    from attn_cli.models.hf.capture import capture

    edit = KeyAblation(taken.marked.keys, only)
    after = capture(taken.loaded, taken.inputs, edit=edit).outputs[taken.output]
    before = taken.outputs[taken.output]
    return movement(before, after, rows, labels, logits=taken.output == "logits")


def _rows(taken: Taken) -> tuple[BoolArray, Labels | None]:
    """The rows of the output that are compared, and their names.

    No padding, no token taken, and no item of the batch that has none to be taken.
    """
    shape = tuple(taken.outputs[taken.output].shape[:-1])
    there = sequences(taken.inputs)
    # Of an encoder-decoder the output is the decoder's, and so it is asked first.
    names: list[Name] = [name for name in ("decoder", "main") if name in there]
    for name in names:
        if shape == (len(there[name]), len(there[name][0])):
            real = real_of(taken.inputs, name)
            gone = taken.marked.marks.get(name)
            rows = real if gone is None else real & ~gone
            return rows & taken.marked.items()[:, None], there[name]
    rows = np.ones(shape, bool)
    if len(rows) == taken.inputs.batch:
        rows[~taken.marked.items()] = False
    if taken.marked.position is not None and len(shape) == 2:
        rows[:, taken.marked.position] = False
    return rows, None


def _layer(facts: CallFacts, sums: PairSums, moved: Movement) -> LayerAblation:
    count = max(int(sums.queries.sum()), 1)
    by_head = sums.weight.sum(0) / count
    head = int(np.nanargmax(by_head)) if np.isfinite(by_head).any() else 0
    return LayerAblation(
        place=facts.place,
        stack=tower(facts),
        layer=facts.layer,
        weight=float(by_head.mean()),
        chance=float(sums.chance.sum(0).mean() / count),
        largest=float(by_head[head]),
        head=head,
        movement=moved,
    )
