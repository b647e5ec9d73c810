"""Options of `attn model`: the model, what it reads, which heads are shown."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from attn_cli.commands import options as o

LOADING = "The model"
READING = "What it reads"

Path = Annotated[
    str | None,
    typer.Argument(
        metavar="PATH",
        help="A folder in Hugging Face layout (config.json, weights, a tokenizer), or a name on "
        "the hub where the network allows.",
        show_default=False,
    ),
]

# The model
RandomWeights = Annotated[
    bool,
    typer.Option(
        "--random-weights",
        metavar="",
        help="Draw the weights: config.json alone is read, and no tokenizer is needed.",
        rich_help_panel=LOADING,
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", help="Of drawn weights and input.", rich_help_panel=LOADING)
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        metavar="",
        help="Run Python code that lies beside the weights, with your rights.",
        rich_help_panel=LOADING,
    ),
]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="Where: cpu, cuda, mps.", rich_help_panel=LOADING)
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="float32, bfloat16, float16 or float64; without it as stored.",
        rich_help_panel=LOADING,
    ),
]
DeviceMap = Annotated[
    str | None,
    typer.Option(
        metavar="MAP",
        help="auto spreads a model over the devices that there are (needs accelerate).",
        rich_help_panel=LOADING,
    ),
]
Backend = Annotated[
    Literal["sdpa", "eager"] | None,
    typer.Option(
        help="Who computes attention in the model; without it what transformers chooses.",
        rich_help_panel=LOADING,
    ),
]

# What it reads
Texts = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="TEXT",
        help="A text; given several times they are a batch, padded to the longest.",
        rich_help_panel=READING,
    ),
]
TextFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The text is this file's.", rich_help_panel=READING),
]
Tokens = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.json",
        help="A list of tokens of the vocabulary, or a list of such lists; nothing is added.",
        rich_help_panel=READING,
    ),
]
InputIds = Annotated[
    list[str] | None,
    typer.Option(
        "--input-ids",
        metavar="IDS",
        help="Token ids, e.g. 101,7592,102; several times for a batch. No tokenizer is needed.",
        rich_help_panel=READING,
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="A picture, or pixel values as .npy.", rich_help_panel=READING
    ),
]
Length = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Draw an input of N tokens; 16 for --random-weights without any other input.",
        rich_help_panel=READING,
    ),
]
DecoderTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--decoder-text",
        metavar="TEXT",
        help="What the decoder of an encoder-decoder reads, one for each text.",
        rich_help_panel=READING,
    ),
]
DecoderIds = Annotated[
    list[str] | None,
    typer.Option(
        "--decoder-ids", metavar="IDS", help="The same as token ids.", rich_help_panel=READING
    ),
]

# What is shown
Layer = Annotated[
    str | None,
    typer.Option(
        "--layer",
        metavar="LIST",
        help="Only these layers, e.g. 0,5-8; with one --head the full view of that head.",
        rich_help_panel=o.SHOWING,
    ),
]
Figures = Annotated[
    str | None,
    typer.Option(
        "--figure",
        metavar="NAMES",
        help="Figures of all heads that are drawn as a matrix, e.g. entropy,first_key_weight; "
        "normalized_entropy without it. --list has them.",
        rich_help_panel=o.SHOWING,
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Only these queries of a head's full view.",
        rich_help_panel=o.SHOWING,
    ),
]
Known = Annotated[
    bool,
    typer.Option(
        "--list",
        metavar="",
        help="Print the figures of a head and what its letters mean, and exit.",
        rich_help_panel=o.SHOWING,
    ),
]

# What is left behind
Save = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Write the stages of the shown layers: one .safetensors or .npz file for one layer, "
        "else a folder with a file a layer. attn run and attn diff read them.",
        rich_help_panel=o.LEAVING,
    ),
]
Stages = Annotated[
    str | None,
    typer.Option(
        metavar="STAGES",
        help="Which stages --save writes, e.g. q,k,v,context; all without it.",
        rich_help_panel=o.LEAVING,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        metavar="",
        help="Overwrite the files of --save and --prometheus.",
        rich_help_panel=o.LEAVING,
    ),
]
