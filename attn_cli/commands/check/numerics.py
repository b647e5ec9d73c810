"""attn check numerics: NaN and inf, saturation, and what each precision loses."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import options as o
from attn_cli.commands.output import Progress, encoding, write
from attn_cli.errors import ExitCode

if TYPE_CHECKING:
    from attn_cli.core.results_numerics import NumericsResult
    from attn_cli.workflows.check.numerics import NumericsOptions

HELP = (
    "Find where NaN or inf begins and what made it, rows that saturate, and what float16 and "
    "bfloat16 would lose. Exit 1 where anything is not finite (a row that sees no key and NaN "
    "behind a mask count: PyTorch makes NaN of them), and where more than 5% of the rows with a "
    "choice, and more than chance brings, give one key more than 0.99 of the weight."
)
EXAMPLES = (
    "Examples:",
    "attn check numerics sample_inputs/float16_overflow.npz",
    "attn check numerics --shape 1,8,64,64 --scale none",
    'attn check numerics sample_inputs/induction.safetensors --text "a b c a" --dtype float16',
)
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Look in this precision: float64, float32, float16, bfloat16. Without it in the "
        "input's own; numbers written as text are float64.",
        rich_help_panel=o.COMPUTING,
    ),
]
Saturated = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Exit 1 where more than this share of the rows with a choice give one key more than "
        "0.99 of the weight; ordinary random scores give a few.",
        rich_help_panel=o.LEAVING,
    ),
]
Allow = Annotated[
    str | None,
    typer.Option(
        metavar="CODES",
        help="Findings that do not fail the check: nonfinite, hidden-nonfinite, empty-row, "
        "nonfinite-gradient, saturated.",
        rich_help_panel=o.LEAVING,
    ),
]


def register(group: typer.Typer) -> None:
    """Adds the command to the group."""
    group.command("numerics", help=HELP, epilog="\n\n".join([*EXAMPLES, o.EXIT_CODES]))(numerics)


def numerics(
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
    seed: o.Seed = None,
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
    dtype: Dtype = None,
    layer: o.LayerOption = None,
    json: o.Json = False,
    saturated: Saturated = 0.05,
    allow: Allow = None,
) -> int:
    """Parses what was asked for, looks at the numbers and shows what they are."""
    given = dict(locals())
    result = _result(source, _options(given))
    _present(result, json=json)
    return ExitCode.DIFFERS if result.failed else ExitCode.OK


def _options(given: Mapping[str, Any]) -> NumericsOptions:
    from attn_cli.checks.numerics.findings import FAILING
    from attn_cli.workflows.check.numerics import NumericsOptions

    alike = ("dtype", "shape", "context", "weights", "text", "saturated")
    return NumericsOptions(
        choices=a.choices(given),
        layers_shown=a.indices(given["layer"], "--layer"),
        allow=a.names(given["allow"], "finding", FAILING),
        **{name: given[name] for name in alike},
    )


def _result(source: str | None, options: NumericsOptions) -> NumericsResult:
    from attn_cli.workflows.check.numerics import check_numerics

    progress = Progress()
    try:
        return check_numerics(source, options, stdin=sys.stdin.buffer, progress=progress)
    finally:
        progress.clear()


def _present(result: NumericsResult, *, json: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    from attn_cli.render.terminal.check_numerics import numerics_screen
    from attn_cli.render.terminal.console import screen_for

    write(numerics_screen(result, screen_for(sys.stdout)))
