"""Health: figures of a layer out of sums, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.model_calls import CallFacts
from attn_cli.models.hf.head_likeness import HeadLikeness, LikenessSums
from attn_cli.models.hf.layer_kl import KlSums, LayerKl
from attn_cli.workflows.model.health import health
from tests.unit.render.test_model_matrix import call


def test_figures_of_a_layer() -> None:
    first, second = (call(layer, heads=2).facts for layer in (0, 1))
    entropies = np.array([[[0.1, 0.3, 9.0], [0.5, 0.7, 9.0]], [[0.2, 9, 9], [np.nan, 9, 9]]])
    rows = np.array([[True, True, False], [True, False, False]])[:, None] & np.ones((1, 2, 1), bool)

    def sums(cosine: float, chance: float) -> LikenessSums:
        pair = np.array([[9.0, 1.0], [1.0, 9.0]])
        both = (np.stack([pair * cosine] * 2), np.stack([pair * chance] * 2))
        return LikenessSums(*both, np.full((2, 2, 2), 2.0))

    likeness, kl = HeadLikeness(lambda f: rows[:, 0]), LayerKl(lambda f: rows[:, 0])
    likeness.sums = {first.place: sums(1.2, 0.4), second.place: sums(2.0, 1.9999)}
    kl.sums = {second.place: KlSums(first.place, *map(np.array, ([3.0, 0], [6.0, 0], [2.0, 0])))}
    made = health(
        (first, second),
        {facts.order: (entropies, rows) for facts in (first, second)},
        likeness,
        kl,
        texts=2,
        sustained=3,
    )
    one, two = made.layers[0].texts
    assert made.needed == 2
    np.testing.assert_allclose(made.layers[0].entropies, [[0.2, 0.2], [0.6, np.nan]])
    assert one.median_entropy == pytest.approx(0.4)
    assert two.median_entropy == pytest.approx(0.2)  # of the head that has a value
    assert (one.finite, two.finite) == (True, False)
    assert (one.cosine, one.cosine_chance) == pytest.approx((0.6, 0.2))
    assert one.likeness == pytest.approx(0.5)  # half of the way from 0.2 to 1
    assert np.isnan(made.layers[1].texts[0].likeness)  # chance leaves nothing to tell
    assert np.isnan(one.kl)
    later = made.layers[1]
    assert later.before == first.place
    assert (later.texts[0].kl, later.texts[0].kl_share) == pytest.approx((1.5, 0.5))
    assert np.isnan(later.texts[1].kl)  # no row


def test_one_head_has_no_pair() -> None:
    facts: CallFacts = call(0, heads=1).facts
    likeness = HeadLikeness(lambda f: np.ones((1, 4), bool))
    likeness.sums = {facts.place: LikenessSums(*(np.full((1, 1, 1), n) for n in (4.0, 4.0, 4.0)))}
    values = np.full((1, 1, 4), 0.5), np.ones((1, 1, 4), bool)
    made = health((facts,), {0: values}, likeness, LayerKl(likeness.real), texts=1, sustained=1)
    assert np.isnan(made.layers[0].texts[0].cosine)
    assert made.alarms == ()
