"""MaskKeeper keeps each different mask once, and none of the model's memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from attn_cli.core.model_calls import CallPlace
from attn_cli.models.hf.mask_keeper import MaskKeeper
from tests.unit.models.hf.calls_by_hand import at_its_softmax, attention_call


def test_a_mask_that_is_written_into_afterwards_stays() -> None:
    mask = torch.ones(5, 7, dtype=torch.bool).tril(2)
    right, keeper = mask.numpy().copy(), MaskKeeper()
    keeper.see(attention_call(mask=mask))
    mask.fill_(False)
    np.testing.assert_array_equal(keeper.masks[0].array, right[None, None])


def test_equal_masks_are_one() -> None:
    keeper, tril = MaskKeeper(), torch.ones(5, 7, dtype=torch.bool).tril(2)
    for number, mask in enumerate((tril, tril.clone(), ~tril)):
        call = attention_call(mask=mask)
        keeper.see(replace(call, facts=replace(call.facts, place=CallPlace(f"layers.{number}"))))
    assert list(keeper.of.values()) == [0, 0, 1]


def test_a_mask_is_found_in_masked_scores() -> None:
    keeper, tril = MaskKeeper(), torch.ones(5, 7, dtype=torch.bool).tril(2)
    keeper.see(at_its_softmax(attention_call(mask=tril)))
    (seen,) = keeper.masks
    assert (seen.kind, seen.shape, seen.fill) == ("recovered", (1, 1, 5, 7), -np.inf)
    np.testing.assert_array_equal(seen.array, tril[None, None])
