"""Options that commands share: each means the same everywhere."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from attn_cli.core.settings import Align, Init, Layout, MaskMeans, WeightsLayout

READING = "How the input is read"
LAYER = "The layer around it"
COMPUTING = "What is computed"
SHOWING = "What is shown"
LEAVING = "What is left behind"
EXIT_CODES = (
    "Exit codes: 0 fine, 1 a check failed or two sides differ, 2 cannot run, 3 undecided, "
    "130 interrupted."
)

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
        help="Who computes it: numpy, torch, tiled, sdpa, mha, flex; --list engines has more.",
        rich_help_panel=COMPUTING,
    ),
]
Block = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Queries and keys of a tile, with --engine tiled; it finds a size by itself.",
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
        help="Parts of the screen: shapes,weights,rows,heads,spread,findings,values,predictions.",
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
