"""What diff says beside its table: readings, conventions, and what no single element shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attn_cli.core.difference import Tally
from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.results_diff import StageResult
from attn_cli.recognize.reading import Reading


def engine_findings(
    reading: Reading,
    tallies: Mapping[str, Tally],
    stages: Sequence[StageResult],
    *,
    whole: bool,
) -> Iterator[Finding]:
    """What is said of two engines."""
    if reading.settings.align is not None:
        yield note("align", f"queries and keys line up {_align(reading)}")
    if not whole:
        words = "the heads went through one at a time, so how an engine pairs them is not compared"
        yield note("head-by-head", words)
    yield from common_findings(tallies, stages)


def common_findings(
    tallies: Mapping[str, Tally], stages: Sequence[StageResult]
) -> Iterator[Finding]:
    """A factor that rounding hides, and sides that are wrong alike."""
    yield from _slopes(tallies)
    for stage in stages:
        if stage.verdict != "different" and (stage.faulty or stage.left.beyond):
            yield Finding(
                "wrong-alike",
                "warning",
                f"{stage.stage}: the sides agree with each other, and not with float64",
                Place(stage=stage.stage),
            )
            return


def _slopes(tallies: Mapping[str, Tally]) -> Iterator[Finding]:
    """The first stage whose scores are a constant factor apart, though no element is beyond.

    Only scores before a cap are asked: those at the cap are all rounded to the same side, and what
    is made of them has one value for many.
    """
    for name in ("scores", "scaled"):
        tally = tallies.get(name)
        if tally is None or not tally.parts:
            continue
        if tally.verdict == "different":
            return
        if tally.signature.slope.is_off(tally.dtype):
            words = tally.signature.slope.words
            yield note("slope", f"{name}: {words}, a factor that rounding hides", Place(stage=name))
            return


def _align(reading: Reading) -> str:
    ends = reading.settings.align == "lower-right"
    where = "at their ends" if ends else "at their beginnings, as PyTorch's is_causal"
    return f"{where} (--align {reading.settings.align})"
