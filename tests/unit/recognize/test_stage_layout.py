"""Layouts of stages, from all arrays at once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.recognize.stage_layout import Axes, Solution, arranged, find_layouts

Shapes = Mapping[str, tuple[int, ...]]


def solved(shapes: Shapes, layout: str | None = None, **known: int) -> Solution:
    return find_layouts(shapes, layout=layout, known=known, source="a.npz")


def layouts(shapes: Shapes, layout: str | None = None, **known: int) -> dict[str, str]:
    return {role: axes.layout for role, axes in solved(shapes, layout, **known).axes.items()}


@pytest.mark.parametrize(
    "shapes, expected",
    [
        ({"q": (2, 3, 7, 8), "weights": (2, 3, 7, 7)}, {"q": "bhld", "weights": "bhls"}),
        ({"q": (2, 7, 3, 8), "weights": (2, 3, 7, 7)}, {"q": "blhd", "weights": "bhls"}),
        (
            {"q": (2, 7, 6, 8), "k": (2, 9, 3, 8), "scores": (2, 6, 7, 9)},
            {"q": "blhd", "k": "blhd"},
        ),
        ({"q": (6, 7, 8), "weights": (2, 3, 7, 7)}, {"q": "b·h"}),
        ({"context": (2, 7, 24), "weights": (2, 3, 7, 7)}, {"context": "(h·d)"}),
        ({"weights": (7, 7)}, {"weights": "one"}),
        ({"x": (7, 8), "weights": (2, 7, 7)}, {"x": "one", "weights": "b·h"}),
        ({"lse": (2, 3, 7), "q": (2, 7, 3, 8)}, {"q": "blhd"}),
    ],
)
def test_sizes_tell_the_layout(shapes: Shapes, expected: dict[str, str]) -> None:
    found = layouts(shapes)
    assert {role: found[role] for role in expected} == expected


def test_the_order_of_the_arrays_does_not_matter() -> None:
    shapes = {"q": (2, 7, 6, 8), "k": (2, 9, 3, 8), "context": (12, 7, 5), "weights": (2, 6, 7, 9)}
    solutions = [dict(solved(dict(order)).sizes) for order in permutations(shapes.items())]
    assert all(sizes == solutions[0] for sizes in solutions)
    assert {name: solutions[0][name] for name in ("B", "H", "Hkv", "L", "S")} == {
        "B": 2,
        "H": 6,
        "Hkv": 3,
        "L": 7,
        "S": 9,
    }


@pytest.mark.parametrize("layout", ["bhld", "blhd"])
def test_a_layout_that_was_said_decides(layout: str) -> None:
    shapes = {"q": (2, 4, 4, 8), "k": (2, 4, 4, 8)}
    with pytest.raises(InputError, match="heads or positions"):
        solved(shapes)
    assert set(layouts(shapes, layout).values()) == {layout}


def test_sizes_that_were_said_decide() -> None:
    assert layouts({"q": (2, 4, 6, 8)}, L=4)["q"] == "blhd"
    assert layouts({"q": (2, 7, 24)}, H=3)["q"] == "(h·d)"


@pytest.mark.parametrize(
    "shapes",
    [
        {"q": (2, 3, 7, 8), "weights": (2, 3, 8, 8)},
        {"q": (2, 3, 7, 8), "k": (2, 2, 7, 8)},
        {"q": (2, 3, 7, 8), "k": (2, 3, 7, 9)},
        {"weights": (1, 2, 3, 4, 5)},
        {"weights": (3,)},
    ],
)
def test_shapes_that_fit_no_layout_are_refused(shapes: Shapes) -> None:
    with pytest.raises(InputError, match="do not fit together"):
        solved(shapes, "bhld")


def test_many_divisors_end_in_reasonable_time() -> None:
    every = dict.fromkeys(("q", "k", "v", "context", "q_rotated"), (5040, 720, 5040))
    assert solved(every).sizes["L"] == 720


@pytest.mark.parametrize("layout", ["bhld", "blhd", "b·h", "(h·d)"])
def test_arranged_puts_every_number_where_a_trace_has_it(layout: str) -> None:
    trace = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    given = {
        "bhld": trace,
        "blhd": trace.swapaxes(1, 2),
        "b·h": trace.reshape(6, 4, 5),
        "(h·d)": trace.swapaxes(1, 2).reshape(2, 4, 15),
    }[layout]
    axes = Axes(layout, {"B": 2, "heads": 3})
    np.testing.assert_array_equal(arranged(given, axes), trace)


def test_one_matrix_gets_its_item_and_head() -> None:
    assert arranged(np.ones((4, 5)), solved({"weights": (4, 5)}).axes["weights"]).shape == (
        1,
        1,
        4,
        5,
    )
    assert arranged(np.ones((4, 5)), solved({"x": (4, 5)}).axes["x"]).shape == (1, 4, 5)
