"""FROM -> TO, read."""

from __future__ import annotations

import pytest

from attn_cli.errors import InputError
from attn_cli.workflows.model.flow_sides import flow_sides

LABELS = (("[CLS]", "C", "=", "[O-]", "->"), ("C", "/", "C", "1", "C"))


def marked(flow: str) -> tuple[list[list[int]], list[list[int]]]:
    """The positions of both sides in each of LABELS."""
    source, target = (side.marks(LABELS) for side in flow_sides(flow))
    return [row.nonzero()[0].tolist() for row in source], [
        row.nonzero()[0].tolist() for row in target
    ]


@pytest.mark.parametrize(
    "flow, source, target",
    [
        ("0 -> 1-2", [[0], [0]], [[1, 2], [1, 2]]),
        ("3- -> 0, 2 ,4", [[3, 4], [3, 4]], [[0, 2, 4], [0, 2, 4]]),
        (r"1-:/[A-Z\[]/->/=/", [[1, 3], [2, 4]], [[2], []]),
        (r"/^C$/ -> 1-3:/\//", [[1], [0, 2, 4]], [[], [1]]),
        ("/->/ -> /[/]/", [[4], []], [[], [1]]),
        ("  4  ->0  ", [[4], [4]], [[0], [0]]),
    ],
)
def test_both_sides(flow: str, source: list[list[int]], target: list[list[int]]) -> None:
    assert marked(flow) == (source, target)


@pytest.mark.parametrize(
    "flow", ["", "->", "1 ->", "1:->2", "3/a/ -> 1", "a -> b", "1 - > 2", "//->1"]
)
def test_no_flow(flow: str) -> None:
    with pytest.raises(InputError, match="cannot be read: expected FROM -> TO"):
        flow_sides(flow)
