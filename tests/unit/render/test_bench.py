"""The screen and the plot of a bench, made of given numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from attn_cli.core.growth import fitted
from attn_cli.core.results_bench import BenchGrowth, BenchResult, BenchRow, BenchSettings
from attn_cli.render.terminal.bench import bench_screen, duration
from attn_cli.workflows.bench_findings import findings
from tests.unit.render.screens import pipe, terminal

LENGTHS = (1024, 2048, 4096)
COMPUTES = {"sdpa": "the output alone", "torch": "every stage, all statistics", "mha": "weights"}

WHOLE = """\
bench  8 heads of 64, d_v 32 on 2 key/value heads · mask causal · float32 on cpu · 2 threads
  median and interquartile range (IQR) of 3 runs in turn · seed 0
  attn 1 · torch 2

length   engine      median       IQR   × sdpa   peak memory
 1,024   sdpa       1.02 ms   0.02 ms     1.00       2.0 MiB
         torch       1.05 s    0.02 s     1024       2.0 GiB
 2,048   sdpa       2.05 ms   0.04 ms     1.00       3.9 MiB
         torch       4.19 s    0.08 s     2048       7.8 GiB
 4,096   sdpa       4.10 ms   0.08 ms     1.00       7.8 MiB
         torch    too large         –        –             –

engine   computes                      time grows as        memory grows as
sdpa     the output alone              n^1.00 (3 lengths)   n^1.00 (3 lengths)
torch    every stage, all statistics   –                    –
mha      weights                       –                    –

· sdpa is PyTorch's scaled_dot_product_attention alone (its flash kernel, with is_causal), on
  tensors that lie ready; attn's engines are timed as attn run calls them, arrays in and arrays out
  timing
· peak memory is of one run, above its inputs and with its output: high-water mark  peak-memory
· no exponent of time for torch: fewer than 3 lengths have a time  no-exponent
· no exponent of memory for torch: fewer than 3 lengths have a peak above 1 MiB  no-exponent
! engine mha does not  unsupported
! torch at 4,096: it needs 9 GiB  too-large
""".splitlines()


def row(engine: str, length: int) -> BenchRow:
    if engine == "mha":
        return BenchRow(engine, length, "weights", why="unsupported", reason="engine mha does not")
    if (engine, length) == ("torch", 4096):
        return BenchRow(engine, length, COMPUTES[engine], why="memory", reason="it needs 9 GiB")
    power = 1 if engine == "sdpa" else 2
    seconds = 1e-6 * length**power
    runs = (seconds, 1.02 * seconds, 0.98 * seconds)
    ratio = 1.0 if engine == "sdpa" else seconds / (1e-6 * length)
    return BenchRow(engine, length, COMPUTES[engine], runs, 2000 * length**power, ratio)


def result() -> BenchResult:
    rows = tuple(row(engine, length) for length in LENGTHS for engine in COMPUTES)
    growth = []
    for engine in COMPUTES:
        own = [each for each in rows if each.engine == engine]
        for quantity, costs in (
            ("time", [each.median_s for each in own]),
            ("memory", [float(each.peak_bytes or math.nan) for each in own]),
        ):
            grown = fitted(LENGTHS, costs)
            assert quantity in ("time", "memory")
            growth.append(
                BenchGrowth(engine, quantity, grown.exponent, grown.points, grown.reason)  # type: ignore[arg-type]
            )
    settings = BenchSettings(
        engines=tuple(COMPUTES), lengths=LENGTHS, heads=8, kv_heads=2, d_k=64, d_v=32,
        mask="causal", dtype="float32", device="cpu", repeats=3, timeout_s=30.0, seed=0,
    )  # fmt: skip
    made = BenchResult(
        settings=settings, threads=2, versions={"attn": "1", "torch": "2"}, device_name=None,
        memory="high-water mark", rows=rows, growth=tuple(growth), findings=(),
    )  # fmt: skip
    return replace(made, findings=tuple(findings(made, ["flash"])))


def test_the_screen_whole() -> None:
    assert bench_screen(result(), pipe()).splitlines() == WHOLE


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_screen_fits(width: int) -> None:
    lines = bench_screen(result(), terminal(width)).splitlines()
    assert [line for line in lines if len(line) > width] == []


def test_a_screen_without_greek_has_microseconds() -> None:
    rows = tuple(replace(row, runs_s=(2e-6, 3e-6)) for row in result().rows)
    text = bench_screen(replace(result(), rows=rows), pipe(encoding="ascii"))
    assert text.isascii()
    assert "2.50 us" in text


def test_durations_have_three_digits_in_a_unit_that_suits() -> None:
    shown = [duration(seconds, seconds) for seconds in (12.345, 0.0012345, 4.2e-7, 1234.5)]
    assert shown == ["12.3 s", "1.23 ms", "0.420 µs", "1,234 s"]


def test_the_plot_repeats_and_names_what_it_shows() -> None:
    pytest.importorskip("matplotlib")
    from attn_cli.render.bench_plot import drawn

    content = drawn(result(), "svg")
    assert content.startswith(b"<?xml")
    assert drawn(result(), "svg") == content
    text = content.decode()
    for words in ("8 heads of 64", "causal", "2,048", "sdpa  n^1.00  the output alone"):
        assert words in text


def test_the_plot_as_pixels() -> None:
    pytest.importorskip("matplotlib")
    from attn_cli.render.bench_plot import drawn

    assert drawn(result(), "png").startswith(b"\x89PNG")
