"""NaN and inf in what makes q, k and v: named by the array that brings it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import attn_cli
from attn_cli.core.findings import Finding
from tests.unit.recognize.dumps import normal
from tests.unit.recognize.layers import STYLES

X = normal(4, 8, seed=20)
NAN, INF = float("nan"), float("inf")


def errors(arrays: dict[str, Any], **options: Any) -> list[Finding]:
    """The findings about what is not finite, but for that of the output."""
    trace = attn_cli.run(arrays, **options)
    return [finding for finding in trace.findings if finding.code == "nonfinite"]


def put(array: Any, value: float, *where: int) -> Any:
    changed = array.copy()
    changed[where] = value
    return changed


@pytest.mark.parametrize(
    "name, where, value, words, stage",
    [
        ("w_q", (2, 1), NAN, "W_q holds 1 NaN, the first at row 2, column 1", "q"),
        ("w_k", (0, 3), INF, "W_k holds 1 inf, the first at row 0, column 3", "k"),
        ("w_v", (7, 9), -INF, "W_v holds 1 inf, the first at row 7, column 9", "v"),
        ("w_o", (5, 0), NAN, "W_o holds 1 NaN, the first at row 5, column 0", "output"),
        ("b_v", (4,), NAN, "b_v holds 1 NaN, the first at feature 4", "v"),
        (
            "positions",
            (3, 2),
            NAN,
            "the table of positions holds 1 NaN, the first at row 3, feature 2",
            "x_positions",
        ),
    ],
)
def test_the_array_is_named_with_its_coordinates(
    name: str, where: tuple[int, ...], value: float, words: str, stage: str
) -> None:
    arrays = {**STYLES["w_q"](), "b_v": normal(10), "positions": normal(5, 8)}
    arrays[name] = put(arrays[name], value, *where)
    (finding,) = errors({"x": X, **arrays}, heads=2, positions="learned")
    assert finding.message == words
    assert (finding.severity, finding.where.stage) == ("error", stage)


def test_each_bad_array_is_named() -> None:
    arrays = STYLES["w_q"]()
    arrays |= {name: put(arrays[name], NAN, 0, 0) for name in ("w_q", "w_o")}
    found = errors({"x": put(X, INF, 1, 1), **arrays}, heads=2)
    assert [finding.message.split()[0] for finding in found] == ["x", "W_q", "W_o"]


def test_a_context_that_nobody_looks_at_brings_nothing() -> None:
    arrays = {"x": X, "context": put(normal(6, 8), NAN, 5, 3), **STYLES["w_q"]()}
    (seen,) = errors(arrays, heads=2)
    assert seen.message == "the context holds 1 NaN, the first at vector 5, feature 3"
    assert errors({**arrays, "context_lengths": np.array([5])}, heads=2) == []


def test_what_only_overflows_is_the_first_stage_that_does() -> None:
    arrays = {name: array * 1e200 for name, array in STYLES["w_q"]().items()}
    (finding,) = errors({"x": X * 1e200, **arrays}, heads=2)
    assert finding.message.startswith("q is the first stage that is not finite")
    assert "the input is finite, so float64 overflowed" in finding.message


def test_finite_layers_bring_no_finding() -> None:
    assert errors({"x": X, **STYLES["w_q"]()}, heads=2, positions="sinusoidal") == []
