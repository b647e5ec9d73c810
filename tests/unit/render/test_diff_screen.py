"""The screen of a difference, at several widths and without Unicode: nothing is cut."""

from __future__ import annotations

import re

import numpy as np
import pytest

from attn_cli.core.results_diff import DiffResult
from attn_cli.render.terminal.diff import diff_screen
from attn_cli.workflows.library_diff import diff
from tests.unit.render.screens import pipe, terminal
from tests.unit.workflows.dumping import in_numpy


@pytest.fixture(scope="module")
def result() -> DiffResult:
    def spoil(name: str, array: np.ndarray) -> np.ndarray:
        if name == "scaled":
            array[1, 2, 3, 1] = np.nan
        return array * np.float32(1.01) if name == "weights" else array

    return diff(in_numpy(), in_numpy(spoil=spoil), mask="causal")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_is_wider_than_the_screen_and_no_number_is_cut(
    width: int, result: DiffResult
) -> None:
    text = diff_screen(result, terminal(width))
    assert max(map(len, text.splitlines())) <= width
    weights = next(stage for stage in result.stages if stage.stage == "weights")
    for number in (weights.left.error, weights.max_rel):
        assert f"{number:.3g}" in text
    assert "! NaN/∞" in text
    assert "right alone 1 NaN" in text


def test_the_last_line_says_what_parts_first_and_every_own_fault(result: DiffResult) -> None:
    words = " ".join(diff_screen(result, pipe()).split())
    assert "✗ scores agree, scaled scores do not; worst at batch 1 head 2 query 3 key 1" in words
    assert words.endswith("the fault is right's own in scaled scores and right's own in weights")


def test_a_wide_screen_has_every_column(result: DiffResult) -> None:
    text = diff_screen(result, terminal(200))
    heading = next(line for line in text.splitlines() if line.startswith("stage"))
    titles = re.split(r"\s{2,}", heading.strip())
    assert titles == [
        *("stage", "shape", "verdict", "difference", "relative", "ulp", "budget", "beyond"),
        *("left error", "right error", "where", "own fault"),
    ]


def test_ascii_has_an_answer_to_every_sign(result: DiffResult) -> None:
    assert "\\u" not in diff_screen(result, terminal(100, encoding="ascii"))
