"""Options of the commands that run somebody's code: how it is built and called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.core.settings import MaskMeans
from attn_cli.errors import InputError

if TYPE_CHECKING:
    from attn_cli.diagnosis.plan_json import Said

CALLING = "How the code is built and called"
IMPORTING = "Importing the file runs it: in a process of its own, with your rights."

PlanFile = Annotated[
    str | None,
    typer.Option(
        "--plan",
        metavar="FILE.json",
        help="All that can be said of the code, as --save-plan of attn check impl writes it.",
        rich_help_panel=CALLING,
    ),
]
Build = Annotated[
    str | None,
    typer.Option(
        "--init",
        metavar="ARGUMENTS",
        help='What its constructor takes, such as "d_model=32, n_heads=4".',
        rich_help_panel=CALLING,
    ),
]
Call = Annotated[
    str | None,
    typer.Option(
        metavar="ARGUMENTS",
        help='What it is called with, in order, such as "x, mask": q, k, v, x, context, positions, '
        "mask, or NAME=literal.",
        rich_help_panel=CALLING,
    ),
]
CodeMaskMeans = Annotated[
    MaskMeans | None,
    typer.Option(
        "--mask-means",
        help="What its mask argument says: True = may attend, True = hidden, or numbers to add.",
        rich_help_panel=CALLING,
    ),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--map",
        metavar="NAME=ROLE,...",
        help='Which matrix is which, such as "to_q=q,to_k=k,to_v=v,proj=o"; also qkv and kv.',
        rich_help_panel=CALLING,
    ),
]
Returns = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help='What comes back, in order, such as "out, weights"; or "attn=weights, ctx=out".',
        rich_help_panel=CALLING,
    ),
]
CodeLayout = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="LIST",
        help="Axes of what it takes: bhld or blhd for heads, bld, lbd or ld for vectors.",
        rich_help_panel=CALLING,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="How long one call may take; 10 without it.",
        rich_help_panel=CALLING,
    ),
]
LONGEST = 3600.0
ALIKE = (  # options that mean by themselves what they say of the code
    "init",
    "call",
    "mask_means",
    "returns",
    "layout",
    "heads",
    "kv_heads",
    "softcap",
    "positions",
    "rope_base",
    "align",
)


SAID = {  # what every command about code takes: the argument and its option
    "plan": "--plan",
    "init": "--init",
    "call": "--call",
    "mask_means": "--mask-means",
    "names": "--map",
    "returns": "--returns",
}


def seconds(given: Mapping[str, Any], name: str) -> float | None:
    """An option that is a time; InputError where it is none."""
    value: float | None = given[name]
    if value is not None and not 0 < value <= LONGEST:
        option = "--" + name.replace("_", "-")
        raise InputError(f"{option} is {value:g}: expected seconds, above 0, up to {LONGEST:g}")
    return value


def words_of_code(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of the command line that say how the code is built and called."""
    said = {option: given[name] for name, option in SAID.items() if given[name] is not None}
    return tuple(word for pair in said.items() for word in pair)


def seed(value: int | None) -> int:
    """The seed that is used; InputError where there is no such."""
    from attn_cli.core.draws import LARGEST_SEED

    if not 0 <= (value or 0) <= LARGEST_SEED:
        raise InputError(f"--seed is {value}: expected a number from 0 to {LARGEST_SEED}")
    return value or 0


def said(given: Mapping[str, Any]) -> Said:
    """The options by name as what they say of the code, over what --plan says."""
    from attn_cli.diagnosis.plan_json import Said
    from attn_cli.diagnosis.saying import say
    from attn_cli.workflows.plan_file import read_plan_file

    plan = given.get("plan")
    return say(
        Said() if plan is None else read_plan_file(plan),
        names=given.get("names"),
        scale=a.scale_factor(given.get("scale")),
        masks=(*(given.get("mask") or ()), *(["causal"] if given.get("causal") else ())),
        **{name: given.get(name) for name in ALIKE},
    )
