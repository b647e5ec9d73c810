"""attn mask: what a mask lets through, and how it is written elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import options as o
from attn_cli.commands.listing import show_list
from attn_cli.commands.output import Progress, encoding, write
from attn_cli.errors import ExitCode, InputError

if TYPE_CHECKING:
    from attn_cli.core.results_fills import FillsResult
    from attn_cli.core.results_mask import MaskResult
    from attn_cli.workflows.mask_options import MaskOptions

HELP = (
    "Show what a mask lets through: a mask expression, or somebody's mask in a file. "
    "True = may attend."
)
EXAMPLES = (
    "Examples:",
    'attn mask "causal & (window(3) | sink(1))"',
    "attn mask causal -q 2 -k 6 --align lower-right --as flex",
    'attn mask "padding(3, 5) & causal" --json',
    "attn mask --fills",
)
Expression = Annotated[
    str | None,
    typer.Argument(
        metavar="EXPR|FILE",
        help='A mask, e.g. "causal & window(4)", or a file that holds one: .npy .npz .safetensors '
        ".pt .pth .json; - is JSON on standard input.",
        show_default=False,
    ),
]
Queries = Annotated[
    int | None,
    typer.Option(
        "-q",
        "--queries",
        metavar="N",
        help="How many queries; without it as many as keys, else 8, or what the mask takes.",
    ),
]
Keys = Annotated[
    int | None,
    typer.Option("-k", "--keys", metavar="N", help="How many keys; without it as many as queries."),
]
As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="TARGET",
        help="The mask as code and nothing else: sdpa (scaled_dot_product_attention), mha "
        "(nn.MultiheadAttention), flex (FlexAttention), hf (Hugging Face).",
    ),
]
Fills = Annotated[
    bool,
    typer.Option(
        "--fills",
        help="Measure with torch what −1e9, −∞ and finfo.min do, and what becomes of empty rows.",
    ),
]
Known = Annotated[bool, typer.Option("--list", help="Print the masks that there are, and exit.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""
    app.command("mask", help=HELP, epilog="\n\n".join([*EXAMPLES, o.EXIT_CODES]))(mask)


def mask(
    expression: Expression = None,
    *,
    queries: Queries = None,
    keys: Keys = None,
    align: o.AlignOption = None,
    targets: As = None,
    fills: Fills = False,
    json: o.Json = False,
    known: Known = False,
) -> int:
    """Parses what was asked for, looks at the mask and shows it."""
    if known:
        return show_list("masks", json=json)
    from attn_cli.paste import TARGETS
    from attn_cli.workflows.mask_options import MaskOptions

    chosen = a.names(targets, "target", tuple(TARGETS))
    options = MaskOptions(queries=queries, keys=keys, align=align, targets=chosen, fills=fills)
    if fills and chosen:
        raise InputError("--as prints code and nothing else: leave --fills out")
    if expression is None:
        _present_fills(options, json=json)
    else:
        _present(_result(expression, options), json=json)
    return ExitCode.OK


def _result(expression: str, options: MaskOptions) -> MaskResult:
    from attn_cli.workflows.mask import mask as look_at

    progress = Progress()
    try:
        return look_at(expression, options, stdin=sys.stdin.buffer, progress=progress)
    finally:
        progress.clear()


def _present(result: MaskResult, *, json: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
        return
    if result.code:
        write("\n\n".join(result.code.values()))
        return
    from attn_cli.render.terminal.console import screen_for
    from attn_cli.render.terminal.mask import mask_screen

    write(mask_screen(result, screen_for(sys.stdout)))
    if result.fills is not None:
        write("\n" + _fills_screen(result.fills))


def _fills_screen(measured: FillsResult) -> str:
    from attn_cli.render.terminal.console import screen_for
    from attn_cli.render.terminal.fills import fills_screen

    return fills_screen(measured, screen_for(sys.stdout))


def _present_fills(options: MaskOptions, *, json: bool) -> None:
    """The measured fills alone, where no mask was given."""
    if not options.fills:
        raise InputError(
            "no EXPR was given: expected a mask such as causal, or a file",
            hint="attn mask --list shows the masks, attn mask --help examples",
        )
    from attn_cli.workflows.mask import fills

    measured = fills()
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(measured.to_dict(), encoding()))
    else:
        write(_fills_screen(measured))
