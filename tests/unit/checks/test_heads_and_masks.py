"""Findings about heads that are alike and masks that hide nothing; the order of findings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.checks.masking import HiddenCount
from attn_cli.checks.run_checks import RunChecks
from attn_cli.core.engine import Ask
from attn_cli.core.findings import SEVERITIES, Place
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines import ENGINES
from tests.agreement.holding import ENGINE_DTYPES
from tests.agreement.samples import built, drawn, stored
from tests.unit.checks.checking import codes, findings, the


def twins(*pairs: tuple[int, int], batch: int = 2) -> AttentionInputs:
    """Four heads of which some are copies: queries and keys of the first in the second."""
    plain = drawn(1, batch=batch, heads=4)
    q, k = plain.q.copy(), plain.k.copy()
    for first, second in pairs:
        q[-1, second], k[-1, second] = q[-1, first], k[-1, first]
    return replace(plain, q=q, k=k)


@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
def test_identical_heads(engine: str, dtype: str) -> None:
    found = the(findings(twins((0, 2)), engine=engine, dtype=dtype), "identical-heads")
    assert found.severity == "warning"
    assert found.message == "item 1: heads 0 and 2 have the same weights in every row"
    assert found.where == Place("weights", 0, 1, 2)


def test_heads_that_are_both_nearly_one_hot_are_not_identical() -> None:
    """Two tokens as wide as a head of a real model: both heads look at themselves alone."""
    x = np.random.default_rng(2).normal(size=(1, 8, 2, 64))
    inputs = AttentionInputs(x, x, x)
    found = findings(replace(inputs, mask=built("causal", inputs)))
    assert "saturated-row" in codes(found)
    assert "identical-heads" not in codes(found)


def test_more_pairs_are_counted_and_one_item_is_not_named() -> None:
    message = the(findings(twins((0, 2), (0, 3), batch=1)), "identical-heads").message
    assert message == "heads 0 and 2 have the same weights in every row (2 more such pairs)"


@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
def test_different_heads_are_not_called_alike(engine: str, dtype: str) -> None:
    assert "identical-heads" not in codes(findings(twins(), engine=engine, dtype=dtype))


def test_heads_without_a_choice_are_alike_by_necessity() -> None:
    """Item 0 sees one key, item 1 five: neither is a finding."""
    plain = drawn(2, batch=2)
    found = findings(replace(plain, mask=built("padding(1, 5)", plain)))
    assert "identical-heads" not in codes(found)
    assert "identical-heads" not in codes(findings(drawn(3, queries=1, keys=1)))


def test_heads_that_have_no_choice_in_the_same_row_are_not_called_alike() -> None:
    """Both see key 0 in row 0; where one of them has a choice the other sees nothing."""
    plain = drawn(3, queries=3, keys=3)
    keep = np.zeros((1, 2, 3, 3))
    keep[:, :, 0, 0] = 1
    keep[0, 0, 1] = keep[0, 1, 2] = 1
    found = codes(findings(replace(plain, mask=stored(keep, plain.shape))))
    assert "empty-row" in found
    assert "identical-heads" not in found


def test_the_first_row_of_a_causal_mask_alone_does_not_make_heads_alike() -> None:
    plain = drawn(4, queries=2, keys=2)
    assert "identical-heads" not in codes(findings(replace(plain, mask=built("causal", plain))))


@pytest.mark.parametrize("text", ["none", "window(5, both)", "padding(5)"])
def test_a_mask_that_hides_nothing_is_a_note(text: str) -> None:
    plain = drawn(5)
    found = the(findings(replace(plain, mask=built(text, plain))), "mask-hides-nothing")
    assert found.severity == "note"
    assert found.where == Place("masked", 0)


def test_an_additive_mask_of_zeros_hides_nothing_and_one_of_fills_does() -> None:
    assert "mask-hides-nothing" in codes(findings(drawn(5, additive=np.zeros((5, 5)))))
    fill = np.triu(np.full((5, 5), -1e9), 1)
    assert "mask-hides-nothing" not in codes(findings(drawn(5, additive=fill)))


def test_no_mask_is_not_spoken_of() -> None:
    assert "mask-hides-nothing" not in codes(findings(drawn(5)))


@pytest.mark.parametrize(
    "text, words",
    [
        ("causal", "hides 10 of 25"),
        ("padding(5, 2)", "hides 30 of 100 in all"),
        ("none", "hides 0 of 25"),
    ],
)
def test_hidden_keys_are_counted(text: str, words: str) -> None:
    plain = drawn(6, batch=2)
    inputs = replace(plain, mask=built(text, plain))
    assert HiddenCount(inputs).words == words


def test_the_most_severe_comes_first() -> None:
    keep = np.ones((5, 5))
    keep[1] = 0
    plain = drawn(7, sinks=np.zeros(2))
    k = plain.k.copy()
    k[0, 0, 0, 0] = np.nan
    found = findings(replace(plain, k=k, mask=stored(keep, plain.shape)))
    order = [SEVERITIES.index(f.severity) for f in found]
    assert order == sorted(order, reverse=True)
    assert {"nonfinite", "empty-row", "sinks"} <= set(codes(found))


def test_checks_keep_no_stage() -> None:
    inputs = drawn(8)
    checks = RunChecks(inputs, file_precision="float64")
    trace = ENGINES["numpy"].run(inputs, Ask(watch=checks.watch))
    assert trace.stages == {}


def test_a_finding_and_its_place_as_json_shows_them() -> None:
    found = the(findings(twins((0, 2))), "identical-heads").to_dict()
    assert found == {
        "code": "identical-heads",
        "severity": "warning",
        "message": "item 1: heads 0 and 2 have the same weights in every row",
        "where": {
            "stage": "weights", "layer": 0, "batch": 1, "head": 2, "query": None, "key": None,
        },
    }  # fmt: skip
