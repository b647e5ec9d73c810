"""attn check edges: boundary cases by kind, on attn's engines or on somebody's code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import code_options as c
from attn_cli.commands import options as o
from attn_cli.commands.output import Progress, encoding, write
from attn_cli.errors import ExitCode, InputError

if TYPE_CHECKING:
    from attn_cli.core.results_edges import EdgesResult
    from attn_cli.workflows.check.edges import EdgesOptions

HELP = (
    "Hold engines, or somebody's code, against boundary cases: one token, empty rows, NaN behind a "
    "mask, grouped heads, huge scores, odd memory layouts, ..."
)
EXAMPLES = (
    "Examples:",
    "attn check edges",
    "attn check edges --engine numpy --kind empty-row,sinks",
    "attn check edges --engine torch --case empty-row/causal-lower-right",
    "attn check edges sample_inputs/my_attention.py:MyAttention --kind more-keys,one-head",
    "attn check edges --list --kind huge-scores",
)
EXIT_CODES = (
    "Exit codes: 0 all passed (what is not supported is counted), 1 a case failed, 2 cannot run, "
    "3 nothing was supported, 130 interrupted."
)
Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE.py:NAME]",
        help=f"A function or class to hold instead. {c.IMPORTING}",
        show_default=False,
    ),
]
Engines = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="LIST",
        help="Whom to hold, e.g. numpy,sdpa; attn's own, numpy and torch, without it.",
        rich_help_panel=o.COMPUTING,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Precision of every case: float64, float32, float16, bfloat16. Without it float64, "
        "and for the kinds about float16 and bfloat16 those.",
        rich_help_panel=o.COMPUTING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Of the drawn numbers; 0 without it.", rich_help_panel=o.COMPUTING
    ),
]
Kinds = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="LIST",
        help="Only these kinds, e.g. empty-row,sinks.",
        rich_help_panel=o.COMPUTING,
    ),
]
OneCase = Annotated[
    str | None,
    typer.Option(
        "--case",
        metavar="KIND/NAME",
        help="One case in full: inputs, mask, what is right, what came.",
        rich_help_panel=o.COMPUTING,
    ),
]
Known = Annotated[
    bool,
    typer.Option(
        "--list",
        metavar="",
        help="Print the kinds, or with --kind the cases of these, and exit.",
        rich_help_panel=o.SHOWING,
    ),
]


def register(group: typer.Typer) -> None:
    """Adds the check to the group."""
    group.command("edges", help=HELP, epilog="\n\n".join([*EXAMPLES, EXIT_CODES]))(edges)


def edges(
    target: Target = None,
    *,
    engine: Engines = None,
    kind: Kinds = None,
    case: OneCase = None,
    dtype: Dtype = None,
    seed: Seed = None,
    plan: c.PlanFile = None,
    init: c.Build = None,
    call: c.Call = None,
    mask_means: c.CodeMaskMeans = None,
    names: c.Names = None,
    returns: c.Returns = None,
    json: o.Json = False,
    known: Known = False,
) -> int:
    """Parses what was asked for, holds the engines or the code against it and shows how it went."""
    given = dict(locals())
    from attn_cli.checks.edges import KINDS
    from attn_cli.engines import ENGINES
    from attn_cli.workflows.check.edges import EdgesOptions

    kinds = a.names(kind, "kind", tuple(KINDS))
    if known:
        return _list(kinds, json=json)
    engines = a.names(engine, "engine", tuple(ENGINES))
    words = _code(given, engines)
    options = EdgesOptions(
        engines=engines, kinds=kinds, case=case, dtype=dtype, seed=c.seed(seed), code=words
    )
    result = _result(given, options)
    _present(result, json=json)
    if result.number("failed"):
        return ExitCode.DIFFERS
    return ExitCode.OK if result.number("passed") else ExitCode.UNDECIDED


def _code(given: Mapping[str, Any], engines: tuple[str, ...]) -> tuple[str, ...]:
    """The words that name somebody's code and say how it is called; none where engines are held."""
    said = c.words_of_code(given)
    if given["target"] is None:
        if said:
            raise InputError(f"{said[0]} is about FILE.py:NAME, and none is given")
        return ()
    if engines:
        raise InputError("--engine and FILE.py:NAME are both given: hold one or the other")
    return (given["target"], *said)


def _result(given: Mapping[str, Any], options: EdgesOptions) -> EdgesResult:
    progress = Progress()
    try:
        if options.code:
            from attn_cli.workflows.check.edges_code import edges_of_code

            return edges_of_code(given["target"], c.said(given), options, progress=progress)
        from attn_cli.workflows.check.edges import edges as hold

        return hold(options, progress=progress)
    finally:
        progress.clear()


def _present(result: EdgesResult, *, json: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    from attn_cli.render.terminal.check_edges import edges_screen
    from attn_cli.render.terminal.console import screen_for

    write(edges_screen(result, screen_for(sys.stdout)))


def _list(kinds: tuple[str, ...], *, json: bool) -> ExitCode:
    """Prints the kinds, or the cases of some."""
    from attn_cli.workflows.check.edges import edges_listing

    found = edges_listing(kinds)
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(found.to_dict(), encoding()))
    else:
        from attn_cli.render.terminal.console import screen_for
        from attn_cli.render.terminal.listing import listing_screen

        write(listing_screen(found, screen_for(sys.stdout)))
    return ExitCode.OK
