"""attn check shapes: do these sizes, this file, this checkpoint fit together?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import options as o
from attn_cli.commands.output import encoding, write
from attn_cli.errors import ExitCode

if TYPE_CHECKING:
    from attn_cli.core.results_shapes import ShapesResult
    from attn_cli.workflows.check.shapes_options import ShapesOptions

HELP = (
    "Say whether shapes fit together and what they cost: sizes, a file, or a checkpoint's folder. "
    "No number of a tensor is read."
)
EXAMPLES = (
    "Examples:",
    "attn check shapes --batch 2 --seq 4 --d-model 8 --d-k 4 --d-v 4",
    'attn check shapes --seq 8192 --d-model 4096 --heads 32 --mask "causal & window(1024)"',
    "attn check shapes sample_inputs/apple.json",
)
COUNTING = (
    "FLOPs: a product of m x k by k x n counts 2*m*n*k, any other operation on a number 1 (softmax "
    "5 a score). Bytes are those of each stage's array, kept by itself."
)
CODES = (
    "Exit codes: 0 it fits, 1 it does not, 2 cannot be read, 3 no tensors to check, or a family "
    "of models that is not known, 130 interrupted."
)
SIZES = "Sizes, where no PATH gives them"
Path = Annotated[
    str | None,
    typer.Argument(
        metavar="PATH",
        help="A file that attn run reads, or the folder of a checkpoint (config.json and "
        ".safetensors); without it the sizes below.",
        show_default=False,
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(metavar="N", help="Sequences at once; 1 without it.", rich_help_panel=SIZES),
]
Seq = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Queries of each; without it 128, and of a model 1024 or as many as it takes.",
        rich_help_panel=SIZES,
    ),
]
KeySeq = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Keys, where they are another number than the queries: of another sequence, or of a "
        "cache with --align lower-right.",
        rich_help_panel=SIZES,
    ),
]
DModel = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Width of a token vector: with it there are projections, W_o too; without it q, k and "
        "v are given.",
        rich_help_panel=SIZES,
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What a number takes: float64, float32, float16, bfloat16, float8_e4m3fn, "
        "float8_e5m2; without it that of the file, else float32.",
        rich_help_panel=SIZES,
    ),
]


def register(group: typer.Typer) -> None:
    """Adds the command to the group."""
    group.command("shapes", help=HELP, epilog="\n\n".join([*EXAMPLES, COUNTING, CODES]))(shapes)


def shapes(
    path: Path = None,
    *,
    batch: Batch = None,
    seq: Seq = None,
    key_seq: KeySeq = None,
    d_model: DModel = None,
    heads: o.Heads = None,
    kv_heads: o.KvHeads = None,
    d_k: o.DK = None,
    d_v: o.DV = None,
    dtype: Precision = None,
    mask: o.Masks = None,
    causal: o.Causal = False,
    align: o.AlignOption = None,
    positions: o.PositionsOption = None,
    scale: o.ScaleOption = None,
    softcap: o.Softcap = None,
    context: o.Context = None,
    layout: o.LayoutOption = None,
    mask_means: o.MaskMeansOption = None,
    mask_axes: o.MaskAxes = None,
    weights: o.Weights = None,
    weights_layout: o.WeightsLayoutOption = None,
    layer: o.LayerOption = None,
    json: o.Json = False,
) -> int:
    """Parses what was asked for, works the shapes out and shows them."""
    given = dict(locals())
    from attn_cli.workflows.check.shapes import check_shapes

    result = check_shapes(path, _options(given), stdin=sys.stdin.buffer)
    _present(result, json=json)
    return _exit_code(result)


def _options(given: Mapping[str, Any]) -> ShapesOptions:
    from attn_cli.workflows.check.shapes_options import ShapesOptions

    alike = ("batch", "seq", "key_seq", "d_model", "dtype", "context", "weights")
    return ShapesOptions(
        choices=a.choices(given),
        layers=a.indices(given["layer"], "--layer"),
        **{name: given[name] for name in alike},
    )


def _present(result: ShapesResult, *, json: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    from attn_cli.render.terminal.check_shapes import shapes_screen
    from attn_cli.render.terminal.console import screen_for

    write(shapes_screen(result, screen_for(sys.stdout)))


def _exit_code(result: ShapesResult) -> ExitCode:
    """1 where something does not fit, else 3 where nothing can be said of the tensors."""
    if result.errors:
        return ExitCode.DIFFERS
    return ExitCode.OK if result.decided else ExitCode.UNDECIDED
