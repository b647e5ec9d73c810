"""A mask that carries a bias is parted; what hides stays, and what is added is a stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.given_masks import GivenMasks
from attn_cli.models.hf.stage_keeper import StageKeeper
from tests.unit.models.hf.making import drawn, made

LOWEST = torch.finfo(torch.float32).min


class Keeping:
    def __init__(self) -> None:
        self.calls: list[AttentionCall] = []

    def see(self, call: AttentionCall) -> None:
        self.calls.append(call)


def test_a_plain_mask_is_handed_on_as_it_is() -> None:
    for mask in (torch.ones(1, 1, 3, 3).bool().tril(), torch.full((1, 1, 3, 3), LOWEST).triu(1)):
        given = GivenMasks().of(mask)
        assert given.mask is mask
        assert given.bias is None


def test_a_mask_of_fewer_axes_gets_four() -> None:
    given = GivenMasks().of(torch.full((3, 3), -torch.inf).triu(1))
    assert given.mask.shape == (1, 1, 3, 3)
    assert given.facts.shape == (3, 3)
    assert given.facts.hidden == pytest.approx(1 / 3)


def test_what_is_added_to_visible_keys_is_a_bias() -> None:
    mask = torch.tensor([[0.5, LOWEST], [-0.25, 0.0]])
    given = GivenMasks().of(mask)
    assert given.mask.tolist() == [[[[0.0, LOWEST], [0.0, 0.0]]]]
    assert given.bias is not None
    assert given.bias.tolist() == [[[[0.5, 0.0], [-0.25, 0.0]]]]
    assert given.facts.fill == LOWEST


def test_a_weak_fill_under_a_bias_hides() -> None:
    """Swin adds −100 where windows must not see each other, over its position bias."""
    given = GivenMasks().of(torch.tensor([[0.5, -100.25], [-99.75, 0.0]]))
    assert given.mask.tolist() == [[[[0.0, -100.25], [-99.75, 0.0]]]]
    assert given.bias is not None
    assert given.bias.tolist() == [[[[0.5, 0.0], [0.0, 0.0]]]]


def test_alibi_in_the_mask_is_the_stage_biased(tmp_path: Path) -> None:
    loaded = made(tmp_path, "falcon", alibi=True)
    calls, stages = Keeping(), StageKeeper(("softcapped", "biased", "masked"))
    capture(loaded, drawn(loaded, 6), [calls, stages])
    for call in calls.calls:
        assert call.facts.position_bias
        assert call.mask is not None
        assert set(call.mask.flatten().tolist()) == {0.0, LOWEST}
        kept = stages.kept[call.facts.place]
        added = kept["biased"] - kept["softcapped"]
        lower = np.tri(6, dtype=bool)
        # ALiBi by its paper: slopes 2^(−8·(h + 1) / heads), here times the key's position, ÷ √d_k.
        slopes = 2.0 ** (-8 * (np.arange(call.facts.heads) + 1) / call.facts.heads)
        expected = slopes[:, None] * np.arange(6) / np.sqrt(call.facts.d_k or 1)
        right = np.broadcast_to(expected[:, None], added[0].shape)
        np.testing.assert_allclose(added[0][:, lower], right[:, lower], rtol=1e-2, atol=1e-3)
        np.testing.assert_allclose(kept["masked"][..., lower], kept["biased"][..., lower])


def test_a_bias_of_zeros_is_none(tmp_path: Path) -> None:
    """T5 gives its cross-attention one."""
    loaded = made(tmp_path, "t5")
    calls = Keeping()
    capture(loaded, drawn(loaded, 5), [calls])
    biased = {
        (call.facts.stack, call.facts.cross) for call in calls.calls if call.facts.position_bias
    }
    assert biased == {("encoder", False), ("decoder", False)}
