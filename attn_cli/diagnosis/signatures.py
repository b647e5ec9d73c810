"""Signatures: how an answer differs that no mistake explains, in the words of `attn diff`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_cli.core.signature import Signature
from attn_cli.diagnosis.probes.probe import Array, Seen


def signatures(unexplained: Sequence[Seen]) -> tuple[str, ...]:
    """What is to be said of the first answer that is no failure; left is the code, right the
    reference. Weights where the code gives back a map, and the context of each head."""
    answered = [one for one in unexplained if one.observed.output is not None]
    return tuple(_of(answered[0])) if answered else ()


def _of(one: Seen) -> Iterator[str]:
    assert one.observed.output is not None
    if one.observed.weights is not None and one.observed.weights_kind == "heads":
        yield from _facts("weights", one, one.observed.weights, one.weights, one.weights_budget)
    if one.observed.output.ndim == 4:
        yield from _facts("context", one, one.observed.output, one.right, one.budget)


def _facts(stage: str, one: Seen, left: Array, right: Array, budget: Array) -> Iterator[str]:
    gathered = Signature(stage, one.question.inputs.q_offset)
    for item in range(len(left)):
        part = slice(item, item + 1)
        gathered.see((item, 0), left[part], right[part])
        gathered.differs((item, 0), left[part], right[part], budget[part])
    for fact in gathered.facts():
        yield f"{one.probe.name}, {stage}: {fact.words}"
