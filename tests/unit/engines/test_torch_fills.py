"""What PyTorch makes of fills and of empty rows is measured, and it is what is known of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from attn_cli.core.results_fills import FillsResult
from attn_cli.engines import torch_fills
from attn_cli.engines.torch_fills import DTYPES, FILLS, HOWS, ROWS, measure_fills


@pytest.fixture(scope="module")
def measured() -> FillsResult:
    return measure_fills()


def outcomes(result: FillsResult, row: str) -> Mapping[tuple[str, str, str], str]:
    cases = (case for case in result.fills if case.row == row)
    return {(case.fill_name, case.how, case.dtype): case.outcome for case in cases}


def test_every_case_is_measured_once(measured: FillsResult) -> None:
    cases = {(c.row, c.how, c.fill_name, c.dtype) for c in measured.fills}
    assert len(cases) == len(measured.fills) == len(ROWS) * len(HOWS) * len(FILLS) * len(DTYPES)


def test_a_row_with_one_hidden_key_is_right_but_where_the_fill_does_not_fit(
    measured: FillsResult,
) -> None:
    for (fill, how, dtype), outcome in outcomes(measured, "visible").items():
        misfit = (fill, how, dtype) == ("-1e9", "filled", "float16")
        assert outcome == ("does not fit" if misfit else "masked softmax")


@pytest.mark.parametrize(
    "fill, how, expected",
    [
        ("-1e9", "filled", ["uniform", "uniform", "does not fit", "uniform"]),
        ("-1e9", "added", ["unmasked softmax", "uniform", "NaN", "uniform"]),
        ("-inf", "filled", ["NaN"] * 4),
        ("-inf", "added", ["NaN"] * 4),
        ("finfo.min", "filled", ["uniform"] * 4),
        ("finfo.min", "added", ["uniform"] * 4),
    ],
)
def test_an_empty_row(measured: FillsResult, fill: str, how: str, expected: list[str]) -> None:
    found = outcomes(measured, "empty")
    assert [found[fill, how, dtype] for dtype in DTYPES] == expected


def test_functions_on_an_empty_row(measured: FillsResult) -> None:
    found = {(c.function, c.mask, c.dtype): c.outcome for c in measured.empty_rows}
    for dtype in DTYPES:
        assert found["torch.softmax", "filled with -inf", dtype] == "NaN"
        assert found["F.scaled_dot_product_attention", "bool", dtype] == "zeros"
        assert found["F.scaled_dot_product_attention", "added -inf", dtype] == "zeros"
        assert found["nn.MultiheadAttention", "bool attn_mask", dtype] == "NaN"
        assert found["nn.MultiheadAttention", "bool key_padding_mask", dtype] == "NaN"
    wide = "F.scaled_dot_product_attention", "added -1e9", "float64"
    assert found[wide] == "unmasked softmax"


def test_weights_and_fills_are_the_numbers_that_came_out(measured: FillsResult) -> None:
    scores = np.array(measured.scores)
    exponentials = np.exp(scores)
    np.testing.assert_allclose(measured.softmax, exponentials / exponentials.sum(), atol=1e-12)
    exponentials[list(measured.hidden)] = 0
    np.testing.assert_allclose(
        measured.masked_softmax, exponentials / exponentials.sum(), atol=1e-12
    )
    by_name = {(c.fill_name, c.dtype): c.fill for c in measured.fills}
    assert by_name["-1e9", "float16"] == -np.inf
    assert by_name["finfo.min", "float16"] == -65504
    assert by_name["-1e9", "bfloat16"] == -998244352


def test_what_fails_is_reported_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> torch.Tensor:
        raise RuntimeError("not implemented for 'Half'\nand more")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", refuse)
    cases = [c for c in measure_fills().empty_rows if "scaled_dot" in c.function]
    assert {(case.outcome, case.error) for case in cases} == {
        ("raises", "not implemented for 'Half'")
    }


def test_an_outcome_that_is_none_of_the_known_ones_is_called_other() -> None:
    assert torch_fills._outcome((0.5, 0.5, 0.0, 0.0), "empty", "float64") == "other"
