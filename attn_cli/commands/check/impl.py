"""attn check impl: is this attention right, and if not, which mistake, on which line?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import code_options as c
from attn_cli.commands import options as o
from attn_cli.commands.output import Progress, encoding, say, write
from attn_cli.errors import ExitCode

if TYPE_CHECKING:
    from attn_cli.core.results_impl import ImplResult
    from attn_cli.diagnosis.unusable import Unusable

HELP = (
    "Say whether somebody's attention is right, and if not, which mistake it is and on which "
    f"line. {c.IMPORTING} What it is meant to apply by itself is said in the words of attn run: "
    "--heads, --mask, --positions, --scale, ..."
)
EXAMPLES = (
    "Examples:",
    "attn check impl sample_inputs/my_attention.py:MyAttention",
    'attn check impl sample_inputs/my_attention.py:MyAttention --init "n_heads=2" --trace',
    'attn check impl mine.py:attend --call "q, k, v, mask" --mask-means keep --mask causal',
)
EXIT_CODES = (
    "Exit codes: 0 correct, 1 wrong or fragile, 2 unusable (it cannot be imported, built or "
    "called, or something must be said first), 3 undecided, 130 interrupted."
)
Target = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py:NAME",
        help="A function or class of attention, PyTorch or NumPy; or package.module:NAME.",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Of the drawn numbers; 0 without it.", rich_help_panel=o.COMPUTING
    ),
]
TotalTime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="How long all calls together may take; 60 without it.",
        rich_help_panel=c.CALLING,
    ),
]
SavePlan = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.json",
        help="Write how it was built, called and meant, for --plan.",
        rich_help_panel=o.LEAVING,
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--force", metavar="", help="Overwrite the file of --save-plan.", rich_help_panel=o.LEAVING
    ),
]
Trace = Annotated[
    bool,
    typer.Option(
        "--trace",
        metavar="",
        help="Every line of the code: what it gives, how that lies in memory, which stage it is.",
        rich_help_panel=o.SHOWING,
    ),
]
PLAN = "PLAN.json"  # stands for what --save-plan writes
CODES: Mapping[str, ExitCode] = {
    "correct": ExitCode.OK,
    "wrong": ExitCode.DIFFERS,
    "fragile": ExitCode.DIFFERS,
    "undecided": ExitCode.UNDECIDED,
}


def register(group: typer.Typer) -> None:
    """Adds the check to the group."""
    group.command("impl", help=HELP, epilog="\n\n".join([*EXAMPLES, EXIT_CODES]))(impl)


def impl(
    target: Target,
    *,
    plan: c.PlanFile = None,
    init: c.Build = None,
    call: c.Call = None,
    mask_means: c.CodeMaskMeans = None,
    names: c.Names = None,
    returns: c.Returns = None,
    layout: c.CodeLayout = None,
    time_limit: c.TimeLimit = None,
    total_time: TotalTime = None,
    heads: o.Heads = None,
    kv_heads: o.KvHeads = None,
    mask: o.Masks = None,
    causal: o.Causal = False,
    align: o.AlignOption = None,
    positions: o.PositionsOption = None,
    rope_base: o.RopeBase = None,
    scale: o.ScaleOption = None,
    softcap: o.Softcap = None,
    seed: Seed = None,
    trace: Trace = False,
    json: o.Json = False,
    save_plan: SavePlan = None,
    force: Overwrite = False,
) -> int:
    """Parses what was said of the code, checks it and shows the verdict."""
    given = dict(locals())
    from attn_cli.diagnosis.unusable import Unusable

    try:
        result = _result(given)
    except Unusable as error:
        if not json:
            raise
        return _unusable(error)
    if save_plan is not None:
        from attn_cli.workflows.plan_file import write_plan_file

        write_plan_file(save_plan, result.plan, force=force)
    _present(result, json=json, trace=trace)
    return CODES[result.verdict]


def _result(given: Mapping[str, Any]) -> ImplResult:
    from attn_cli.diagnosis.allowance import SECONDS
    from attn_cli.diagnosis.host.session import LIMIT
    from attn_cli.workflows.check.boundary import BoundarySuite
    from attn_cli.workflows.check.impl import check_impl

    limit, total = (c.seconds(given, name) for name in ("time_limit", "total_time"))
    if given["save_plan"] is not None:
        from attn_cli.workflows.plan_file import check_plan_target

        check_plan_target(given["save_plan"], force=given["force"])
    said, seed = c.said(given), c.seed(given["seed"])
    progress = Progress()
    progress.busy("asking the code")
    try:
        lines = BoundarySuite(_words(given), seed)
        return check_impl(
            given["target"],
            said,
            seed=seed,
            limit=limit or LIMIT,
            total=total or SECONDS,
            lines=lines,
        )
    finally:
        progress.clear()


def _words(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The words by which another command asks the same code: by a plan where nothing else does."""
    others = ("layout", "heads", "kv_heads", "mask", "align", "positions", "rope_base", "scale")
    said = any(given[name] is not None for name in (*others, "softcap")) or given["causal"]
    if said or given["save_plan"] is not None:
        return (given["target"], "--plan", given["save_plan"] or PLAN)
    return (given["target"], *c.words_of_code(given))


def _unusable(error: Unusable) -> ExitCode:
    """An object of its own on stdout; the sentence on stderr."""
    from attn_cli.render.json_text import json_text
    from attn_cli.render.text import clean
    from attn_cli.workflows.check.impl import unusable

    write(json_text(unusable(error).to_dict(), encoding()))
    say(f"attn: {clean(error.message)}" + (f" ({clean(error.hint)})" if error.hint else ""))
    return ExitCode.CANNOT_RUN


def _present(result: ImplResult, *, json: bool, trace: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    from attn_cli.render.terminal.check_impl import check_impl_screen
    from attn_cli.render.terminal.console import screen_for

    write(check_impl_screen(result, screen_for(sys.stdout), trace=trace))
