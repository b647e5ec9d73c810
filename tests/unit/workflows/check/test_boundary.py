"""The boundary suite as a line of behaviour: how many cases hold, and which does not first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.results_impl import Behaviour
from attn_cli.diagnosis.adapting import adapt_object
from attn_cli.workflows.check.boundary import BoundarySuite

WORDS = ("mine.py:attend", "--init", "d_model=8, heads=1")


def right(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """The mask is True where a query may attend."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ v


def overflows(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """The mask is True where a query may attend."""
    scores = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    if mask is not None:
        scores = np.where(mask, scores, 0)
    return scores / scores.sum(-1, keepdims=True) @ v


def shares_one_mask(q: Any, k: Any, v: Any) -> Any:
    """Causal attention, d wide in and out."""
    future = np.triu(np.ones((q.shape[-2], k.shape[-2]), bool), 1)
    return right(q, k, v, ~future)


def line(code: Any, suite: BoundarySuite) -> Behaviour:
    with adapt_object(code, name="code") as adapted:
        (found,) = suite(adapted)
    return found


def test_right_code_is_asked_at_least_200_cases_and_fails_on_conventions_alone() -> None:
    found = line(right, BoundarySuite(WORDS, seconds=120.0))
    assert found.check == "boundary suite"
    assert found.status == "note"
    held, asked = (int(word) for word in found.detail.split(" held")[0].split(" of "))
    assert 200 < held < asked
    assert "the others are rows that see no key, or numbers that are not finite" in found.detail
    assert "of 367 not meant for it;" in found.detail
    assert found.detail.endswith(
        "; attn check edges mine.py:attend --init 'd_model=8, heads=1' --kind empty-row"
    )


def test_what_goes_wrong_is_named_before_conventions() -> None:
    found = line(overflows, BoundarySuite(seconds=120.0))
    assert found.status == "fails"
    assert "; first huge-scores/" in found.detail
    assert "attn check edges" not in found.detail  # the code has no name on a command line


def test_few_cases_are_explained() -> None:
    found = line(shares_one_mask, BoundarySuite(seconds=120.0))
    assert "not meant for it (" in found.detail
    assert "the code cannot be given this mask" in found.detail


def test_it_says_how_many_cases_there_was_no_time_for() -> None:
    found = line(right, BoundarySuite(seconds=0.0))
    assert found.detail == "1 of 1 held; 1 cases tried, no more after 0 s"


@pytest.mark.parametrize("seed", [0, 3])
def test_the_seed_is_repeated_where_it_is_not_0(seed: int) -> None:
    found = line(lambda q, k, v: 0 * q, BoundarySuite(("a.py:f",), seed, seconds=0.0))
    assert found.detail.endswith(" --kind one-token" + (" --seed 3" if seed else ""))
