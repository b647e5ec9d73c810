"""Options of `attn model` that ask a question beside the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attn_cli.commands import options as o
from attn_cli.errors import InputError

if TYPE_CHECKING:
    from attn_cli.workflows.model.questions import Questions

ASKING = "What is asked of it"

Health = Annotated[
    bool,
    typer.Option(
        "--health",
        metavar="",
        help="Hold every layer against limits that depend on what its rows see; exit with 1 where "
        "one is passed in several texts in a row.",
        rich_help_panel=ASKING,
    ),
]
Sustained = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        min=1,
        help="Texts in a row for an alarm of --health: 3, or all where there are fewer.",
        rich_help_panel=ASKING,
    ),
]
Flow = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="FROM->TO",
        help="Weight that some tokens give to others, the strongest heads first. A side is RANGE, "
        '/REGEX/ or RANGE:/REGEX/, counted from 0, e.g. "35-:/C|N/ -> 1-33".',
        rich_help_panel=ASKING,
    ),
]
Sensitive = Annotated[
    str | None,
    typer.Option(
        "--sensitive",
        metavar="REGEX",
        help="Weight that tokens of such texts (names, numbers of identity cards) get from all "
        "others.",
        rich_help_panel=ASKING,
    ),
]
AblateKey = Annotated[
    str | None,
    typer.Option(
        "--ablate-key",
        metavar="TOKEN",
        help="Let no query look at this token (a position, or its text), and see how the output "
        "really moves.",
        rich_help_panel=ASKING,
    ),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="CONDITION",
        help='Exit with 1 where any shown head meets it, e.g. "normalized_entropy<0.05"; --list '
        "has the figures. Repeatable.",
        rich_help_panel=o.LEAVING,
    ),
]
Prometheus = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write the figures of the shown heads for Prometheus's textfile collector.",
        rich_help_panel=o.LEAVING,
    ),
]


def asked(given: Mapping[str, Any]) -> bool:
    """Whether a question was asked whose answer is a part of the screen."""
    return bool(given["health"]) or any(
        given[name] is not None for name in ("flow", "sensitive", "ablate_key")
    )


def questions(given: Mapping[str, Any]) -> Questions:
    """What was asked, out of the command's arguments by name."""
    from attn_cli.core.head_condition import head_condition
    from attn_cli.core.model_health import SUSTAINED
    from attn_cli.workflows.model.flow_sides import flow_sides
    from attn_cli.workflows.model.questions import Questions

    sustained, flow = given["sustained"], given["flow"]
    if sustained is not None and not given["health"]:
        raise InputError("--sustained is about the alarms of --health, and it is not given")
    return Questions(
        health=given["health"],
        sustained=SUSTAINED if sustained is None else sustained,
        flow=flow,
        sides=None if flow is None else flow_sides(flow),
        sensitive=given["sensitive"],
        ablate=given["ablate_key"],
        conditions=tuple(head_condition(text) for text in given["fail_if"] or ()),
    )
