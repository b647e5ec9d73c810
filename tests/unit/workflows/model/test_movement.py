"""How far an output moved, by hand and against scipy-free formulas of numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attn_cli.workflows.model import movement as file
from attn_cli.workflows.model.ablation_findings import rank_correlation
from attn_cli.workflows.model.movement import movement

LABELS = (("a", "b", "c"),)
BEFORE = torch.tensor([[[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]]])
AFTER = torch.tensor([[[3.0, 4.0], [0.0, 1.0], [0.0, 1.0]]])


@pytest.mark.parametrize("at_once", [1, 1 << 22])
def test_rows_that_count(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "AT_ONCE", at_once)
    rows = np.array([[True, True, True]])
    made = movement(BEFORE, AFTER, rows, LABELS, logits=True)
    lengths = [0, np.sqrt(2), 0.5]
    assert made.rows == 3
    assert made.moved == pytest.approx(np.mean(lengths))
    assert made.most == pytest.approx(np.sqrt(2))
    assert made.where is not None
    assert (made.where.position, made.where.token) == (1, "b")
    assert made.changed == 1  # the second row alone has another largest number
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (BEFORE.numpy(), AFTER.numpy()))
    assert made.kl == pytest.approx((p * np.log(p / q)).sum(-1).mean(), rel=1e-5)


def test_rows_that_do_not_count() -> None:
    made = movement(BEFORE, AFTER, np.array([[True, False, True]]), LABELS, logits=False)
    assert (made.rows, made.changed) == (2, None)
    assert made.moved == pytest.approx(0.25)
    assert np.isnan(made.kl)
    none = movement(BEFORE, AFTER, np.zeros((1, 3), bool), LABELS, logits=True)
    assert (none.rows, none.where, none.changed) == (0, None, None)
    assert np.isnan(none.moved)


def test_one_row_an_item() -> None:
    """Logits of a class: (B, classes)."""
    made = movement(BEFORE[0], AFTER[0], np.ones(3, bool), None, logits=True)
    assert (made.rows, made.where) == (3, None)


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    # ranks 1.5 1.5 3 against 1 2 3: 1.5 ÷ √(1.5 · 2)
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(1.5 / np.sqrt(3))
    assert np.isnan(rank_correlation([1, 1], [1, 2]))
