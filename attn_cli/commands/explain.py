"""attn explain: the whole arithmetic of one output row, as one would write it on paper."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import options as o
from attn_cli.commands.output import write
from attn_cli.errors import ExitCode, InputError

if TYPE_CHECKING:
    from attn_cli.core.explanation import Explanation
    from attn_cli.workflows.explain import ExplainOptions

HELP = "Write out the arithmetic of one output row, digit by digit, from q · k to the output."
EXAMPLES = (
    "Examples:",
    "attn explain sample_inputs/three_tokens.json --query 0",
    "attn explain sample_inputs/apple.json --query 2 --head 1",
    "attn explain sample_inputs/sentence.csv --query 7 --causal --json",
)
MOST_TERMS = 1_000_000  # "all": more than anything has

OneQuery = Annotated[
    str | None,
    typer.Option("--query", metavar="N", help="The row: a query, counted from 0."),
]
OneLayer = Annotated[
    str | None,
    typer.Option("--layer", metavar="N", help="The layer of a model.", rich_help_panel=o.SHOWING),
]
Head = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Only these heads; without it all of at most 4, else head 0.",
        rich_help_panel=o.SHOWING,
    ),
]
OneItem = Annotated[
    str | None,
    typer.Option("--item", metavar="N", help="The item of the batch.", rich_help_panel=o.SHOWING),
]
Terms = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="How many terms of a sum, keys and features are written out, or all; without it all "
        "of at most 12, else the largest 8 or as many as stand in a line.",
        rich_help_panel=o.SHOWING,
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""
    app.command("explain", help=HELP, epilog="\n\n".join([*EXAMPLES, o.EXIT_CODES]))(explain)


def explain(
    source: o.Input = None,
    *,
    query: OneQuery = None,
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
    layer: OneLayer = None,
    head: Head = None,
    item: OneItem = None,
    terms: Terms = None,
    json: o.Json = False,
) -> int:
    """Parses what was asked for, works the row out and shows it."""
    given = dict(locals())
    if source is None:
        raise InputError(
            "no INPUT was given: expected a file of token vectors, of q, k and v, or a model",
            hint="attn explain --help shows examples",
        )
    row = one_index(query, "--query")
    if row is None:
        raise InputError(
            "no --query was given: expected the row to explain, a query counted from 0",
            hint=f"for example attn explain {source} --query 0",
        )
    _present(source, _options(row, given), json=json)
    return ExitCode.OK


def _options(row: int, given: Mapping[str, Any]) -> ExplainOptions:
    """The command's arguments by name as the options of an explanation."""
    from attn_cli.workflows.explain import ExplainOptions

    return ExplainOptions(
        query=row,
        choices=a.choices(given),
        layer=one_index(given["layer"], "--layer"),
        heads=a.indices(given["head"], "--head"),
        item=one_index(given["item"], "--item"),
        terms=_terms(given["terms"]),
        **{name: given[name] for name in ("context", "weights", "text")},
    )


def _present(source: str, options: ExplainOptions, *, json: bool) -> None:
    from attn_cli.workflows.explain import explain_file

    result = explain_file(source, options, stdin=sys.stdin.buffer)
    write(_json(result) if json else _screen(result))


def _json(result: Explanation) -> str:
    from attn_cli.render.json_text import json_text

    return json_text(result.to_dict(), sys.stdout.encoding)


def _screen(result: Explanation) -> str:
    from attn_cli.render.terminal.console import screen_for
    from attn_cli.render.terminal.explain import explain_screen

    return explain_screen(result, screen_for(sys.stdout))


def one_index(text: str | None, option: str) -> int | None:
    """The number of an option that takes one index; None for None.

    >>> one_index(" 7", "--query")
    7
    """
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d{1,9}\s*", text):
        raise InputError(f"{option} is {text!r}: expected one number, counted from 0")
    return int(text)


def _terms(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "all":
        return MOST_TERMS
    if not re.fullmatch(r"\s*0*[1-9]\d{0,5}\s*", text):
        raise InputError(f"--terms is {text!r}: expected a number from 1 on, or all")
    return int(text)
