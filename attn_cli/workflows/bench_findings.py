"""What is said of a measurement: how it was made, what is unsure of it, and what did not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_cli.core.findings import Finding, note
from attn_cli.core.growth import FEWEST
from attn_cli.core.results_bench import REFERENCE, BenchResult, BenchRow

NOISY = 0.25  # an interquartile range beyond this share of the median
CODES = {
    "unsupported": "unsupported",
    "memory": "too-large",
    "time": "time-limit",
    "died": "process-ended",
    "failed": "failed",
}


def findings(result: BenchResult, kernels: Sequence[str]) -> Iterator[Finding]:
    """Notes on what was measured, then what is missing or unsure."""
    yield _timing(result, kernels)
    yield note(
        "peak-memory",
        f"peak memory is of one run, above its inputs and with its output: {result.memory}"
        if not _unmeasured(result)
        else f"peak memory was {result.memory}",
    )
    yield from _no_exponent(result)
    yield from _noisy(result)
    yield from _missing(result)
    yield from _interrupted(result)


def _timing(result: BenchResult, kernels: Sequence[str]) -> Finding:
    causal = ", with is_causal" if result.settings.mask == "causal" else ""
    took = f" (its {' and its '.join(kernels)} kernel{causal})" if kernels else ""
    return note(
        "timing",
        f"{REFERENCE} is PyTorch's scaled_dot_product_attention alone{took}, on tensors that lie "
        "ready; attn's engines are timed as attn run calls them, arrays in and arrays out",
    )


def _no_exponent(result: BenchResult) -> Iterator[Finding]:
    """Which exponents are missing of engines that ran."""
    if len(result.settings.lengths) < FEWEST:
        yield note("no-exponent", f"no exponents: a fit takes {FEWEST} lengths")
        return
    ran = {row.engine for row in result.rows if row.runs_s}
    for quantity, what in (("time", "a time"), ("memory", "a peak above 1 MiB")):
        missing = [g for g in result.growth if g.quantity == quantity and g.engine in ran]
        engines = ", ".join(growth.engine for growth in missing if growth.reason)
        if engines and not (quantity == "memory" and _unmeasured(result)):
            yield note(
                "no-exponent",
                f"no exponent of {quantity} for {engines}: fewer than {FEWEST} lengths have {what}",
            )


def _unmeasured(result: BenchResult) -> bool:
    """Whether the peak of memory could not be measured on the device."""
    return result.memory.startswith("not ")


def _noisy(result: BenchResult) -> Iterator[Finding]:
    noisy = [row for row in result.rows if row.spread_s > NOISY * row.median_s]
    if noisy:
        where = ", ".join(f"{row.engine} at {row.length:,}" for row in noisy)
        yield Finding(
            "noisy",
            "warning",
            f"the middle half of the runs spreads over more than {NOISY:.0%} of their median: "
            f"{where}; was the machine busy?",
        )


def _missing(result: BenchResult) -> Iterator[Finding]:
    """One finding an engine and reason, with the lengths it holds for."""
    groups: dict[tuple[str, str, str], list[BenchRow]] = {}
    for row in result.rows:
        if row.why is not None and row.why != "interrupted":
            groups.setdefault((row.engine, row.why, row.reason), []).append(row)
    for (engine, why, reason), rows in groups.items():
        every = len(rows) == len(result.settings.lengths)
        where = "" if every else f" at {', '.join(f'{row.length:,}' for row in rows)}"
        after = [len(row.runs_s) for row in rows if row.runs_s]
        runs = f" (after {after[0]} of {result.settings.repeats} runs)" if after else ""
        said = reason if reason.startswith("engine ") else f"{engine}{where}: {reason}{runs}"
        yield Finding(CODES[why], "warning", said)


def _interrupted(result: BenchResult) -> Iterator[Finding]:
    """Where it was broken off, and the lengths that nothing was measured at."""
    if result.complete:
        return
    short = [row for row in result.rows if row.why == "interrupted"]
    where = ", ".join(
        f"{row.engine} at {row.length:,} after {len(row.runs_s)} of {result.settings.repeats} runs"
        for row in short
    )
    begun = {row.length for row in result.rows}
    left = ", ".join(f"{length:,}" for length in result.settings.lengths if length not in begun)
    parts = (where, f"not begun: {left}" if left else "")
    words = "; ".join(part for part in parts if part)
    yield Finding("interrupted", "warning", f"interrupted{': ' if words else ''}{words}")
