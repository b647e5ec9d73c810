"""attn check grads: are the gradients of attention what finite differences say?"""

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
    from attn_cli.core.results_grads import GradsResult
    from attn_cli.workflows.check.grads_asked import GradsOptions

HELP = (
    "Compare the gradients of attention with finite differences in float64, input by input and "
    "head by head; without an INPUT, on a set of small cases. INPUT may be FILE.py:NAME: then of "
    f"somebody's PyTorch code. {c.IMPORTING}"
)
EXAMPLES = (
    "Examples:",
    "attn check grads",
    "attn check grads sample_inputs/three_tokens.json --init xavier --heads 2 --causal",
    "attn check grads --shape 1,6,5,4 --kv-heads 2 --positions rope --json",
    "attn check grads sample_inputs/my_attention.py:MyAttention",
    'attn check grads sample_inputs/induction.safetensors --text "a b c a" --layer 1',
)
Engine = Annotated[
    str,
    typer.Option(metavar="NAME", help="Whose gradients: torch.", rich_help_panel=o.COMPUTING),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Of the loss, of the cases or --shape, and of --init; 0 without it.",
        rich_help_panel=o.COMPUTING,
    ),
]
CODES: Mapping[str, ExitCode] = {
    "right": ExitCode.OK,
    "wrong": ExitCode.DIFFERS,
    "undecided": ExitCode.UNDECIDED,
}


def register(group: typer.Typer) -> None:
    """Adds the check to the group."""
    group.command("grads", help=HELP, epilog="\n\n".join([*EXAMPLES, o.EXIT_CODES]))(grads)


def grads(
    source: o.Input = None,
    *,
    shape: o.Shape = None,
    text: o.Text = None,
    context: o.Context = None,
    heads: o.Heads = None,
    kv_heads: o.KvHeads = None,
    layout: o.LayoutOption = None,
    mask_means: o.MaskMeansOption = None,
    mask_axes: o.MaskAxes = None,
    weights: o.Weights = None,
    weights_layout: o.WeightsLayoutOption = None,
    init: o.InitOption = None,
    d_k: o.DK = None,
    d_v: o.DV = None,
    positions: o.PositionsOption = None,
    rope_base: o.RopeBase = None,
    relative_bidirectional: o.RelativeBidirectional = None,
    max_distance: o.MaxDistance = None,
    mask: o.Masks = None,
    causal: o.Causal = False,
    align: o.AlignOption = None,
    scale: o.ScaleOption = None,
    softcap: o.Softcap = None,
    engine: Engine = "torch",
    seed: Seed = None,
    layer: o.LayerOption = None,
    plan: c.PlanFile = None,
    json: o.Json = False,
) -> int:
    """Parses what was asked for, checks the gradients and shows the result."""
    given = dict(locals())
    result = _of_code(given) or _result(source, _options(given))
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
    else:
        from attn_cli.render.terminal.check_grads import check_grads_screen
        from attn_cli.render.terminal.console import screen_for

        write(check_grads_screen(result, screen_for(sys.stdout)))
    return CODES[result.verdict]


def _of_code(given: Mapping[str, Any]) -> GradsResult | None:
    """The gradients of somebody's code; None where INPUT names none."""
    from attn_cli.diagnosis.adapting import names_code

    source = given["source"]
    if source is None or not names_code(source):
        if given["plan"] is not None:
            raise InputError("--plan is about FILE.py:NAME, and INPUT is none")
        return None
    known = ("source", "plan", "seed", "mask_means", "json")
    said = [name for name, value in given.items() if value not in (None, False, "torch", [])]
    for name in said:
        if name not in known:
            raise InputError(
                f"--{name.replace('_', '-')} is not about code",
                hint="what is to be said of code stands in a plan: attn check impl --save-plan",
            )
    from attn_cli.workflows.check.grads_code import grads_of_code

    seed = c.seed(given["seed"])
    progress = Progress()
    progress.busy("asking the code")
    try:
        return grads_of_code(source, c.said(_about_code(given)), seed=seed)
    finally:
        progress.clear()


def _about_code(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("plan", "mask_means")}


def _options(given: Mapping[str, Any]) -> GradsOptions:
    """The command's arguments by name as the options of the check."""
    from attn_cli.workflows.check.grads_asked import GradsOptions

    alike = ("engine", "seed", "shape", "context", "weights", "text")
    return GradsOptions(
        choices=a.choices({name: value for name, value in given.items() if name != "seed"}),
        layers_shown=a.indices(given["layer"], "--layer"),
        **{name: given[name] for name in alike},
    )


def _result(source: str | None, options: GradsOptions) -> GradsResult:
    from attn_cli.workflows.check.grads import grads as check

    progress = Progress()
    try:
        return check(source, options, stdin=sys.stdin.buffer, progress=progress)
    finally:
        progress.clear()
