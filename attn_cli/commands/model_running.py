"""Options of `attn model` that run it again: in other ways, or beside another model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import arguments as a

if TYPE_CHECKING:
    from attn_cli.models.hf.options import LoadOptions

AGAIN = "What it is held against"
ALL = "all"

Check = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="NAMES",
        help="Run the text again and hold every stage against the text alone: padding, cache, "
        "batch, chunks, packing, or all. Exit with 1 where one is different.",
        rich_help_panel=AGAIN,
    ),
]
Diff = Annotated[
    str | None,
    typer.Option(
        "--diff",
        metavar="B",
        help="Another model on the same text, layer by layer: PATH, or the same one with "
        "backend=eager, dtype=bfloat16, device=cuda or seed=1 (joined by commas, behind a PATH "
        "too). Exit with 1 where they part.",
        rich_help_panel=AGAIN,
    ),
]


def checks(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of --check, in the order in which they are run."""
    from attn_cli.core.results_model_ways import CHECKS

    names = a.names(given["check"], "check", (*CHECKS, ALL))
    return tuple(CHECKS) if ALL in names else names


def other(given: Mapping[str, Any], load: LoadOptions) -> LoadOptions | None:
    """The other side of --diff, None where there is none."""
    from attn_cli.workflows.model.other_side import other_side

    return None if given["diff"] is None else other_side(given["diff"], load)


def asked(given: Mapping[str, Any]) -> bool:
    """Whether something was asked whose answer is a part of the screen."""
    return given["check"] is not None or given["diff"] is not None
