"""Options that commands share: each means the same everywhere."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal

import typer

from attn_cli.core.registry import unknown_name
from attn_cli.core.settings import (
    Align,
    Choices,
    Init,
    Layout,
    MaskMeans,
    Scale,
    WeightsLayout,
)
from attn_cli.errors import InputError

READING = "How the input is read"
LAYER = "The layer around it"
COMPUTING = "What is computed"
SHOWING = "What is shown"
LEAVING = "What is left behind"
EXIT_CODES = (
    "Exit codes: 0 fine, 1 a check failed or two sides differ, 2 cannot run, 3 undecided, "
    "130 interrupted."
)
MOST_INDICES = 100_000  # in one list; "0-999999999" is a slip of the finger

Text = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="What a model reads: its tokens with blanks between, or unspaced where the longest "
        "tokens that match tell it apart.",
        rich_help_panel=READING,
    ),
]
Input = Annotated[
    str | None,
    typer.Argument(
        metavar="INPUT",
        help="A file of token vectors, of q, k and v, or a model: .json .csv .tsv .npy .npz "
        ".safetensors .pt .pth; - is JSON on standard input.",
        show_default=False,
    ),
]

# How the input is read
Shape = Annotated[
    str | None,
    typer.Option(
        metavar="B,H,L,D",
        help="Without an INPUT: batch, heads, length and d_k of standard normal q, k and v.",
        rich_help_panel=READING,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Keys and values come from this second sequence.",
        rich_help_panel=READING,
    ),
]
Heads = Annotated[
    int | None,
    typer.Option(metavar="N", help="Split the width into N query heads.", rich_help_panel=READING),
]
KvHeads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Split keys and values into N heads that query heads share.",
        rich_help_panel=READING,
    ),
]
LayoutOption = Annotated[
    Layout | None,
    typer.Option(
        "--layout",
        help="Axes of 4-D q, k, v: (batch, heads, length, d) or (batch, length, heads, d).",
        rich_help_panel=READING,
    ),
]
MaskMeansOption = Annotated[
    MaskMeans | None,
    typer.Option(
        "--mask-means",
        help="What the file's mask says: True = may attend, True = hidden, or numbers to add.",
        rich_help_panel=READING,
    ),
]
MaskAxes = Annotated[
    str | None,
    typer.Option(
        metavar="AXES",
        help="Axes of the file's 2-D mask: query,key or batch,key.",
        rich_help_panel=READING,
    ),
]

# The layer around it
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Projections of one layer for token vectors: w_q, q_proj.weight, qkv.weight, ...",
        rich_help_panel=LAYER,
    ),
]
WeightsLayoutOption = Annotated[
    WeightsLayout | None,
    typer.Option(
        "--weights-layout",
        help="How square matrices lie there: (out, in) as in nn.Linear, or (in, out).",
        rich_help_panel=LAYER,
    ),
]
InitOption = Annotated[
    Init | None,
    typer.Option(
        "--init",
        help="Draw projections: xavier uniform, unit normal, or as nn.Linear starts.",
        rich_help_panel=LAYER,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Of the draws; 0 without it.", rich_help_panel=LAYER),
]
DK = Annotated[
    int | None,
    typer.Option(
        "--d-k", metavar="N", help="Width of a head's queries and keys.", rich_help_panel=LAYER
    ),
]
DV = Annotated[
    int | None,
    typer.Option("--d-v", metavar="N", help="Width of a head's values.", rich_help_panel=LAYER),
]
PositionsOption = Annotated[
    str | None,
    typer.Option(
        "--positions",
        metavar="SCHEME",
        help="none, sinusoidal, learned, rope (rope:half, rope:interleaved), alibi or relative.",
        rich_help_panel=LAYER,
    ),
]
RopeBase = Annotated[
    float | None,
    typer.Option(
        metavar="X", help="Base of RoPE's angles; 10000 without it.", rich_help_panel=LAYER
    ),
]
RelativeBidirectional = Annotated[
    Literal["true", "false"] | None,
    typer.Option(
        "--relative-bidirectional",
        help="Whether the relative bias has buckets for keys after the query, too.",
        rich_help_panel=LAYER,
    ),
]
MaxDistance = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="From where on the relative bias tells no distances apart; 128 without it.",
        rich_help_panel=LAYER,
    ),
]

# What is computed
ScaleOption = Annotated[
    str | None,
    typer.Option(
        "--scale",
        metavar="X",
        help="Factor on the scores; none for 1. Without it 1/sqrt(d_k).",
        rich_help_panel=COMPUTING,
    ),
]
Softcap = Annotated[
    float | None,
    typer.Option(
        metavar="C", help="Cap the scores: C * tanh(score / C).", rich_help_panel=COMPUTING
    ),
]
Masks = Annotated[
    list[str] | None,
    typer.Option(
        "--mask",
        metavar="EXPR",
        help='Which keys a query sees, e.g. "causal & window(4)"; repeated: all must allow it.',
        rich_help_panel=COMPUTING,
    ),
]
Causal = Annotated[
    bool,
    typer.Option(
        "--causal", metavar="", help="Short for --mask causal.", rich_help_panel=COMPUTING
    ),
]
AlignOption = Annotated[
    Align | None,
    typer.Option(
        "--align",
        help="How queries line up with keys of another number: ends together (decoding with a "
        "cache) or beginnings together.",
        rich_help_panel=COMPUTING,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Who computes it: numpy, torch, sdpa, mha, flex; --list engines has more.",
        rich_help_panel=COMPUTING,
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Precision: float64, float32, float16, bfloat16 (with torch).",
        rich_help_panel=COMPUTING,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Where: cpu, cuda, mps (with torch).", rich_help_panel=COMPUTING
    ),
]

# What is shown
LayerOption = Annotated[
    str | None,
    typer.Option(
        "--layer",
        metavar="LIST",
        help="Only these layers of a model, e.g. 0,5-8.",
        rich_help_panel=SHOWING,
    ),
]
Head = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Only these heads, e.g. 0,5-8.", rich_help_panel=SHOWING),
]
Query = Annotated[
    str | None, typer.Option(metavar="LIST", help="Only these queries.", rich_help_panel=SHOWING)
]
Item = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Only these items of the batch.", rich_help_panel=SHOWING),
]
Bits = Annotated[
    bool,
    typer.Option(
        "--bits",
        metavar="",
        help="Entropy in bits on the screen, not nats.",
        rich_help_panel=SHOWING,
    ),
]
Show = Annotated[
    str | None,
    typer.Option(
        metavar="PARTS",
        help="Parts of the screen: shapes,weights,rows,heads,findings,values,predictions.",
        rich_help_panel=SHOWING,
    ),
]
Values = Annotated[
    str | None,
    typer.Option(
        metavar="STAGES",
        help="The numbers of these stages, e.g. weights,output.",
        rich_help_panel=SHOWING,
    ),
]
Rows = Annotated[
    Literal["all"] | None,
    typer.Option(help="List every row, however many.", rich_help_panel=SHOWING),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", metavar="", help="JSON on stdout, nothing else.", rich_help_panel=SHOWING
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        "--list",
        metavar="KIND",
        help="Print the masks, positions, engines, statistics, formats or stages, and exit.",
        rich_help_panel=SHOWING,
    ),
]

# What is left behind
FailOn = Annotated[
    Literal["warning", "error"] | None,
    typer.Option(
        help="Exit with 1 where there is a finding this severe or worse.", rich_help_panel=LEAVING
    ),
]
Save = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write every stage to a .safetensors or .npz file that attn can read again.",
        rich_help_panel=LEAVING,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", metavar="", help="Overwrite the file of --save.", rich_help_panel=LEAVING
    ),
]


def choices(given: Mapping[str, Any]) -> Choices:
    """What was asked for of the computation, out of a command's arguments by name.

    --causal is one more mask; what a command does not take stays unsaid.
    """
    masks = (*(given.get("mask") or ()), *(["causal"] if given.get("causal") else ()))
    both = given.get("relative_bidirectional")
    alike = {field.name for field in fields(Choices)} & given.keys()
    return Choices(
        masks=masks,
        scale=scale_factor(given.get("scale")),
        relative_bidirectional=None if both is None else both == "true",
        **{name: given[name] for name in alike - {"scale", "relative_bidirectional"}},
    )


def indices(text: str | None, option: str) -> tuple[int, ...] | None:
    """Numbers from a list with ranges, in order and once each; None for None.

    >>> indices("5-7,0", "--head")
    (0, 5, 6, 7)
    """
    if text is None:
        return None
    chosen: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if not found:
            raise InputError(
                f"{option} has {part.strip()!r}: expected numbers and ranges such as 0,5-8"
            )
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if last < first:
            raise InputError(f"{option} has the range {first}-{last}, which ends before it begins")
        if last - first >= MOST_INDICES:
            raise InputError(f"{option} has the range {first}-{last}: at most {MOST_INDICES:,}")
        chosen.update(range(first, last + 1))
    return tuple(sorted(chosen))


def names(text: str | None, kind: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names from a list with commas, in the order of `known`; a wrong one suggests the near one.

    >>> names("b,a", "letter", ("a", "b", "c"))
    ('a', 'b')
    """
    if text is None:
        return ()
    chosen = {part.strip() for part in text.split(",")}
    for name in sorted(chosen.difference(known)):
        raise unknown_name(kind, name, tuple(known))
    return tuple(name for name in known if name in chosen)


def scale_factor(text: str | None) -> Scale | None:
    """The number of --scale, or "none".

    >>> scale_factor("0.5"), scale_factor("none"), scale_factor(None)
    (0.5, 'none', None)
    """
    if text is None:
        return None
    if text == "none":
        return "none"
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not math.isfinite(factor):
        raise InputError(f"--scale is {text!r}: expected a number, or none")
    return factor
