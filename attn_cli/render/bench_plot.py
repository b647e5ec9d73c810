"""The plot of `attn bench`: time and peak memory over the length, a line an engine."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attn_cli.core.results_bench import BenchResult, BenchRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vP*Xd<>"
MIB = 1 << 20


def drawn(result: BenchResult, suffix: str) -> bytes:
    """The content of a `png` or `svg` file; the same result gives the same file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    time, memory = figure.subplots(1, 2)
    for place, engine in enumerate(result.settings.engines):
        rows = [row for row in result.rows if row.engine == engine]
        look: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "color": f"C{place % 10}"}
        what = f"{_named(result, engine, 'time')}  {rows[0].computes}"
        _times(time, rows, what, look)
        _peaks(memory, rows, _named(result, engine, "memory"), look)
    _labelled(time, "time of one run, s", result)
    _labelled(memory, "peak memory above the inputs, MiB", result)
    figure.suptitle(_title(result), fontsize="medium")
    target = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "attn", "svg.fonttype": "none"}):
        figure.savefig(target, format=suffix, dpi=150, metadata=_metadata(suffix))
    return target.getvalue()


def _times(axes: Axes, rows: Sequence[BenchRow], name: str, look: dict[str, Any]) -> None:
    """Medians, each with the middle half of its runs as a bar."""
    measured = [row for row in rows if row.runs_s]
    if not measured:
        return
    half = [0.0 if math.isnan(row.spread_s) else row.spread_s / 2 for row in measured]
    lengths, medians = [row.length for row in measured], [row.median_s for row in measured]
    low = [min(h, 0.9 * m) for h, m in zip(half, medians, strict=True)]
    axes.errorbar(lengths, medians, yerr=[low, half], label=name, capsize=3, **look)


def _peaks(axes: Axes, rows: Sequence[BenchRow], name: str, look: dict[str, Any]) -> None:
    measured = [(row.length, row.peak_bytes / MIB) for row in rows if row.peak_bytes]
    if measured:
        axes.plot(*zip(*measured, strict=True), label=name, **look)


def _named(result: BenchResult, engine: str, quantity: str) -> str:
    """`torch  n^1.98`."""
    for growth in result.growth:
        if (growth.engine, growth.quantity) == (engine, quantity):
            known = not math.isnan(growth.exponent)
            return f"{engine}  n^{growth.exponent:.2f}" if known else engine
    return engine


def _labelled(axes: Axes, what: str, result: BenchResult) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    lengths = result.settings.lengths
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=30)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()
    axes.set_xlabel("length, tokens")
    axes.set_ylabel(what)
    axes.grid(visible=True, alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")


def _title(result: BenchResult) -> str:
    s = result.settings
    mask = s.mask or "no mask"
    mask = mask if len(mask) <= 48 else f"{mask[:47]}…"
    versions = " · ".join(f"{name} {number}" for name, number in result.versions.items())
    return (
        f"{s.heads} heads of {s.d_k} · {mask} · {s.dtype} on {s.device} · "
        f"{result.threads} threads · medians of {s.repeats}\n{versions}"
    )


def _metadata(suffix: str) -> dict[str, str | None]:
    return {"Date": None} if suffix == "svg" else {"Software": None}
