"""attn bench: what each engine costs, and how that grows with the length."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import options as o
from attn_cli.commands.listing import show_list
from attn_cli.commands.output import Progress, encoding, say, write
from attn_cli.errors import ExitCode

if TYPE_CHECKING:
    from attn_cli.core.results_bench import BenchResult
    from attn_cli.workflows.bench_options import BenchOptions

HELP = (
    "Measure what engines cost: time, peak memory, how both grow with the length, and the ratio to "
    "PyTorch's scaled_dot_product_attention. Each runs in a process of its own; they take turns."
)
EXAMPLES = (
    "Examples:",
    "attn bench",
    "attn bench --engines torch,tiled --lengths 1k,2k,4k,8k --causal",
    "attn bench --engines sdpa:flash,sdpa:math,flex --dtype bfloat16 --json",
    "attn bench --lengths 1k,2k,4k --plot costs.svg",
)
CODES = (
    "Exit codes: 0 measured (what did not run is said), 2 cannot run, or nothing could be "
    "measured, 130 interrupted (what was measured until then is shown)."
)
ENGINES = "numpy,torch,sdpa,tiled"
LENGTHS = "256,512,1k,2k"
MEASURED = "What is measured"
MEASURING = "How it is measured"
Engines = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Engines, e.g. numpy,torch,tiled; sdpa, which the ratios are to, always runs.",
        rich_help_panel=MEASURED,
    ),
]
Lengths = Annotated[
    str,
    typer.Option(
        metavar="LIST",
        help="Numbers of tokens, e.g. 1k,2k,4k, where 1k is 1,024.",
        rich_help_panel=MEASURED,
    ),
]
Heads = Annotated[
    int, typer.Option(metavar="N", help="How many query heads.", rich_help_panel=MEASURED)
]
KvHeads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="How many key/value heads, which query heads share; without it as many.",
        rich_help_panel=MEASURED,
    ),
]
DK = Annotated[
    int,
    typer.Option(
        "--d-k", metavar="N", help="Width of a head's queries and keys.", rich_help_panel=MEASURED
    ),
]
DV = Annotated[
    int | None,
    typer.Option(
        "--d-v",
        metavar="N",
        help="Width of a head's values; without it d_k.",
        rich_help_panel=MEASURED,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N", help="Of the normal numbers in q, k and v.", rich_help_panel=MEASURED
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        metavar="N", help="Timed runs of each, after a warm-up.", rich_help_panel=MEASURING
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="S",
        help="Seconds that one run may take; an engine that takes longer is left out from there "
        "on.",
        rich_help_panel=MEASURING,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Of every engine; without it as many as PyTorch takes by itself.",
        rich_help_panel=MEASURING,
    ),
]
Plot = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw time and memory over the length into a .png or .svg file; needs "
        "matplotlib, which the extra plot brings.",
        rich_help_panel=o.LEAVING,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", metavar="", help="Overwrite the file of --plot.", rich_help_panel=o.LEAVING
    ),
]
Known = Annotated[
    bool,
    typer.Option(
        "--list", metavar="", help="Print the engines that there are, and exit.",
        rich_help_panel=o.SHOWING,
    ),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""
    app.command("bench", help=HELP, epilog="\n\n".join([*EXAMPLES, CODES]))(bench)


def bench(
    *,
    engines: Engines = ENGINES,
    lengths: Lengths = LENGTHS,
    heads: Heads = 8,
    kv_heads: KvHeads = None,
    d_k: DK = 64,
    d_v: DV = None,
    mask: o.Masks = None,
    causal: o.Causal = False,
    dtype: o.Dtype = "float32",
    device: o.Device = "cpu",
    seed: Seed = 0,
    repeats: Repeats = 5,
    timeout: Timeout = 30.0,
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: o.Json = False,
    known: Known = False,
) -> int:
    """Parses what was asked for, measures it and shows the result."""
    given = dict(locals())
    if known:
        return show_list("engines", json=json)
    options = _options(given)
    if plot is not None:
        from attn_cli.workflows.bench_plot import check_plot

        check_plot(plot, force=force)
    result = _result(options)
    _present(result, json=json)
    if plot is not None:
        _draw(result, plot)
    return ExitCode.OK if result.complete else ExitCode.INTERRUPTED


def _options(given: Mapping[str, Any]) -> BenchOptions:
    """The command's arguments by name as the options of a bench."""
    from attn_cli.workflows.bench_options import BenchOptions, parse_engines, parse_lengths

    alike = ("heads", "kv_heads", "d_k", "d_v", "dtype", "device", "seed", "repeats")
    return BenchOptions(
        engines=parse_engines(given["engines"]),
        lengths=parse_lengths(given["lengths"]),
        masks=(*(given["mask"] or ()), *(["causal"] if given["causal"] else ())),
        timeout=given["timeout"],
        threads=given["threads"],
        **{name: given[name] for name in alike},
    )


def _result(options: BenchOptions) -> BenchResult:
    from attn_cli.workflows.bench import bench as measure

    progress = Progress()
    try:
        return measure(options, progress=progress.busy)
    finally:
        progress.clear()


def _present(result: BenchResult, *, json: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    from attn_cli.render.terminal.bench import bench_screen
    from attn_cli.render.terminal.console import screen_for

    write(bench_screen(result, screen_for(sys.stdout)))


def _draw(result: BenchResult, plot: str) -> None:
    from attn_cli.render.bench_plot import drawn
    from attn_cli.workflows.bench_plot import save_plot

    save_plot(plot, drawn(result, plot.rpartition(".")[2].lower()))
    say(f"Wrote {plot}")
