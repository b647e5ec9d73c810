"""attn check dump: does every stage of a file follow from the one before it?"""

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
    from attn_cli.core.results_dump import DumpResult
    from attn_cli.workflows.diff_options import DiffOptions

HELP = (
    "Recompute every stage that a file holds from the one before it, name the first that does not "
    "follow, and the mistake that makes it."
)
EXAMPLES = (
    "Examples:",
    "attn check dump mine.npz --causal",
    "attn check dump layer0.safetensors --map probs=weights,dots=scores",
    'attn check dump mine.pt --mask "causal & window(4)" --json',
)
CODES = (
    "Exit codes: 0 every stage follows from those before it, 1 one does not, 2 cannot be read, "
    "3 there is nothing to recompute, 130 interrupted."
)
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Arrays by the names of stages: q, k, v, scores, weights, context, output, mask, ... "
        "in .safetensors .npz .pt .json, or a folder of .npy; - is JSON on standard input.",
        show_default=False,
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="THEIRS=OURS",
        help="What an array is: probs=weights; repeated, or with commas.",
        rich_help_panel=o.READING,
    ),
]
Computed = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="The precision that it was computed in: bfloat16, tf32, ...",
        rich_help_panel=o.READING,
    ),
]
Atol = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="Allow X + rtol * |recomputed| in place of the measured budget.",
        rich_help_panel=o.COMPUTING,
    ),
]
Rtol = Annotated[
    float | None,
    typer.Option(metavar="X", help="See --atol.", rich_help_panel=o.COMPUTING),
]


def register(group: typer.Typer) -> None:
    """Adds the command to the group."""
    group.command("dump", help=HELP, epilog="\n\n".join([*EXAMPLES, CODES]))(dump)


def dump(
    file: File,
    *,
    names: Map = None,
    layout: o.LayoutOption = None,
    computed: Computed = None,
    heads: o.Heads = None,
    kv_heads: o.KvHeads = None,
    mask_means: o.MaskMeansOption = None,
    mask_axes: o.MaskAxes = None,
    mask: o.Masks = None,
    causal: o.Causal = False,
    align: o.AlignOption = None,
    positions: o.PositionsOption = None,
    rope_base: o.RopeBase = None,
    scale: o.ScaleOption = None,
    softcap: o.Softcap = None,
    atol: Atol = None,
    rtol: Rtol = None,
    json: o.Json = False,
) -> int:
    """Parses what was asked for, recomputes the stages and shows them."""
    given = dict(locals())
    result = _result(file, _options(given))
    _present(result, json=json)
    return _exit_code(result)


def _options(given: Mapping[str, Any]) -> DiffOptions:
    """The command's arguments by name, as those of a comparison of which this is one side."""
    from attn_cli.workflows.diff_options import DiffOptions, by_side, name_map, tolerance

    return DiffOptions(
        choices=a.choices(given),
        map=name_map(given["names"] or ()),
        layout=by_side("--layout", given["layout"], ("bhld", "blhd")),
        computed=by_side("--computed", given["computed"], None),
        tolerance=tolerance(given["atol"], given["rtol"]),
    )


def _result(file: str, options: DiffOptions) -> DumpResult:
    from attn_cli.workflows.check.dump import check_dump

    progress = Progress()
    try:
        return check_dump(file, options, stdin=sys.stdin.buffer, progress=progress)
    finally:
        progress.clear()


def _present(result: DumpResult, *, json: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    from attn_cli.render.terminal.check_dump import dump_screen
    from attn_cli.render.terminal.console import screen_for

    write(dump_screen(result, screen_for(sys.stdout)))


def _exit_code(result: DumpResult) -> ExitCode:
    codes = {
        "consistent": ExitCode.OK,
        "inconsistent": ExitCode.DIFFERS,
        "undecided": ExitCode.UNDECIDED,
    }
    return codes[result.verdict]
