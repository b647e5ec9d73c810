"""Findings of a model, from figures that are set by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from attn_cli.core.results_model import CallFigures
from attn_cli.workflows.model.findings import fine_words, named, report_findings
from tests.unit.render.test_model_matrix import call


def said(**changes: Any) -> dict[str, str]:
    """code → message for a layer of two heads, of which head 1 is changed."""
    return {finding.code: finding.message for finding in report_findings((layer(**changes),), ())}


def layer(
    *, sinks: bool = False, means: dict[str, float] | None = None, **changes: Any
) -> CallFigures:
    made = call(3, 2)
    first, second = made.heads
    odd = replace(second, **changes, means={**second.means, "sum": 1.0, **(means or {})})
    return replace(made, heads=(first, odd), facts=replace(made.facts, sinks=sinks))


@pytest.mark.parametrize(
    "changes, code, words",
    [
        ({"empty_rows": 2}, "empty-row", "2 rows of 1 head see no key: L3H1"),
        ({"filled_rows": 1}, "finite-fill-row", "1 row of 1 head see only keys filled"),
        ({"same_as": 0, "role": "same"}, "same-head", "1 head does what an earlier head"),
        ({"least_sum": 0.9}, "row-sum", "rows of 1 head do not sum to 1 (least 0.900000): L3H1"),
        (
            {"means": {"normalized_entropy": 0.01}},
            "low-entropy",
            "1 head with a normalised entropy",
        ),
        ({"means": {"sum": float("nan")}}, "nonfinite", "NaN or inf took part in 1 head: L3H1"),
    ],
)
def test_what_is_odd_is_said_with_its_head(changes: dict[str, Any], code: str, words: str) -> None:
    found = said(**changes)
    assert set(found) == {code, "no-explanation"}
    assert found[code].startswith(words)


def test_sinks_take_weight_by_design() -> None:
    found = said(sinks=True, least_sum=0.7, means={"sum": 0.8})
    assert found["sinks"].startswith("rows of 1 head sum below 1 by design: the sink takes 0.200")
    assert "row-sum" not in found


def test_nothing_odd_is_said_as_fine() -> None:
    assert set(said()) == {"no-explanation"}
    assert list(fine_words((layer(),), ())) == ["every row sums to 1", "no empty rows"]
    assert list(fine_words((layer(least_sum=0.5),), ())) == ["no empty rows"]
    assert list(fine_words((layer(empty_rows=1),), ())) == ["every row sums to 1"]


def test_many_heads_are_counted() -> None:
    heads = call(0, 9).heads
    assert named(heads) == "L0H0, L0H1, L0H2, L0H3, L0H4, L0H5 and 3 more"
    towers = [replace(heads[0], stack="encoder"), replace(heads[1], stack="decoder")]
    assert named(towers) == "encoder L0H0, decoder L0H1"
