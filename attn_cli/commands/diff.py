"""attn diff: two computations stage by stage: where they part, and whether it is rounding."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import options as o
from attn_cli.commands.listing import show_list
from attn_cli.commands.output import Progress, encoding, write
from attn_cli.errors import ExitCode, InputError

if TYPE_CHECKING:
    from attn_cli.core.results_diff import DiffResult
    from attn_cli.workflows.diff_options import DiffOptions

HELP = (
    "Compare two computations stage by stage: two engines on one input, or two dumps. Says where "
    "they part, whether it is rounding, and which side is wrong."
)
EXAMPLES = (
    "Examples:",
    "attn diff numpy-vs-torch@bfloat16 sample_inputs/apple.json",
    "attn diff torch@float16-vs-torch@float32 --shape 2,4,128,64 --causal",
    "attn diff mine.npz theirs.safetensors --map logits=scaled --causal",
)
EXIT_CODES = (
    "Exit codes: 0 every compared stage is identical or rounding, 1 one is different, 2 cannot "
    "run, 3 nothing could be compared, 130 interrupted."
)
DUMPS = "How two dumps are read"

Left = Annotated[
    str | None,
    typer.Argument(
        metavar="LEFT-vs-RIGHT | A",
        help="Two engines, each ENGINE or ENGINE@DTYPE, or the first of two dumps: .safetensors "
        ".npz .pt .json, or a folder of .npy.",
        show_default=False,
    ),
]
Right = Annotated[
    str | None,
    typer.Argument(
        metavar="INPUT | B",
        help="What the engines compute on; without it seeded numbers. Or the second dump.",
        show_default=False,
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="THEIRS=OURS",
        help="What an array is: logits=scaled; repeated, or with commas. left:NAME=… for one side.",
        rich_help_panel=DUMPS,
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="[bhld|blhd]",
        help="Axes of 4-D q, k, v, context: (batch, heads, length, d) or (batch, length, heads, "
        "d); left=blhd for one side.",
        rich_help_panel=DUMPS,
    ),
]
Computed = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SIDE=DTYPE",
        help="The precision that a dump was computed in: left=bfloat16, right=tf32.",
        rich_help_panel=DUMPS,
    ),
]
Atol = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="Allow X + rtol * |right| in place of the measured budget.",
        rich_help_panel=o.COMPUTING,
    ),
]
Rtol = Annotated[
    float | None,
    typer.Option(metavar="X", help="See --atol.", rich_help_panel=o.COMPUTING),
]
Stages = Annotated[
    str | None,
    typer.Option(
        "--stage",
        metavar="STAGES",
        help="Compare these stages alone, e.g. scores,weights.",
        rich_help_panel=o.SHOWING,
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""
    app.command("diff", help=HELP, epilog="\n\n".join([*EXAMPLES, EXIT_CODES]))(diff)


def diff(
    left: Left = None,
    right: Right = None,
    *,
    names: Map = None,
    layout: LayoutOption = None,
    computed: Computed = None,
    shape: o.Shape = None,
    context: o.Context = None,
    heads: o.Heads = None,
    kv_heads: o.KvHeads = None,
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
    dtype: o.Dtype = "float64",
    device: o.Device = "cpu",
    atol: Atol = None,
    rtol: Rtol = None,
    stages: Stages = None,
    json: o.Json = False,
    known: o.Known = None,
) -> int:
    """Parses what was asked for, compares and shows the result."""
    given = dict(locals())
    if known is not None:
        return show_list(known, json=json)
    if left is None:
        raise InputError(
            "nothing to compare was given: expected LEFT-vs-RIGHT, or two files",
            hint="attn diff numpy-vs-torch compares two engines on seeded numbers",
        )
    result = _result(left, right, _options(given))
    _present(result, json=json)
    return _exit_code(result)


def _options(given: Mapping[str, Any]) -> DiffOptions:
    """The command's arguments by name as the options of a comparison."""
    from attn_cli.core.trace import ALL_STAGES
    from attn_cli.workflows.diff_options import DiffOptions, by_side, name_map, tolerance
    from attn_cli.workflows.generated import parse_shape

    layouts = by_side("--layout", given["layout"], ("bhld", "blhd"))
    alike = layouts.get("left")
    choices = a.choices({**given, "layout": alike if alike == layouts.get("right") else None})
    return DiffOptions(
        choices=choices,
        shape=None if given["shape"] is None else parse_shape(given["shape"]),
        map=name_map(given["names"] or ()),
        layout=layouts,
        computed=by_side("--computed", ",".join(given["computed"] or ()) or None, None),
        stages=a.names(given["stages"], "stage", (*ALL_STAGES, "lse")),
        tolerance=tolerance(given["atol"], given["rtol"]),
        **{name: given[name] for name in ("dtype", "device", "context", "weights")},
    )


def _result(left: str, right: str | None, options: DiffOptions) -> DiffResult:
    from attn_cli.workflows.diff import diff as compare

    progress = Progress()
    try:
        return compare(left, right, options, stdin=sys.stdin.buffer, progress=progress)
    finally:
        progress.clear()


def _present(result: DiffResult, *, json: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    from attn_cli.render.terminal.console import screen_for
    from attn_cli.render.terminal.diff import diff_screen

    write(diff_screen(result, screen_for(sys.stdout)))


def _exit_code(result: DiffResult) -> ExitCode:
    if not result.stages:
        return ExitCode.UNDECIDED
    return ExitCode.OK if result.first_difference is None else ExitCode.DIFFERS
