"""Planted faults: each is found by its check, at the layer and stage where it was planted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attn_cli.core.results_model_ways import Parting
from attn_cli.models.hf.loaded import LoadedModel
from tests.unit.models.hf.making import made
from tests.unit.models.hf.ways.running import LENGTH, altered, checked, verdicts


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return made(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return made(tmp_path_factory.mktemp("bert"), "bert")


def parting(loaded: LoadedModel, name: str, way: str) -> Parting:
    """Where a way parts; the others of its check are asked for as well."""
    found = checked(loaded, name)[name, way]
    assert found.verdict == "different"
    assert found.parting is not None
    assert found.parting.gap > found.parting.budget
    assert found.share > 1
    return found.parting


def no_mask(given: dict[str, Any]) -> None:
    given["attention_mask"] = None


def test_an_encoder_layer_that_ignores_the_padding_mask(bert: LoadedModel) -> None:
    with altered(bert.model.bert.encoder.layer[1].attention, no_mask):
        first = parting(bert, "padding", "right")
    assert (first.layer, first.stage) == (1, "weights")
    assert first.where == "bert.encoder.layer.1.attention.self"
    assert 0.1 < first.outside < 0.5  # 3 of 12 tokens are padding
    assert first.position == 0
    assert first.token is not None


def test_a_decoder_layer_that_ignores_the_padding_mask(llama: LoadedModel) -> None:
    with altered(llama.model.model.layers[1].self_attn, no_mask):
        found = verdicts(checked(llama, "padding"))
        first = parting(llama, "padding", "left")
    assert found["padding right"] in ("identical", "rounding")  # causal: it sees none of it
    assert (first.layer, first.stage, first.position) == (1, "weights", 0)
    assert first.outside > 0.5


def test_positions_that_are_not_shifted_under_left_padding(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    loaded = made(tmp_path_factory.mktemp("gpt2"), "gpt2")

    def unshifted(given: dict[str, Any]) -> None:
        given.pop("position_ids", None)

    with altered(loaded.model, unshifted):
        first = parting(loaded, "padding", "left")
    assert (first.layer, first.stage, first.position) == (0, "q", 0)
    assert first.outside == 0


def test_positions_that_are_off_by_one_behind_a_cache(llama: LoadedModel) -> None:
    def late(given: dict[str, Any]) -> None:
        if given.get("cache", given.get("past_key_values")) is not None:
            given["position_ids"] = given["position_ids"] + 1

    with altered(llama.model, late):
        first = parting(llama, "cache", "cache")
    assert first.layer == 0
    assert first.stage in ("q", "k", "scores")  # rotated by one token more
    assert first.position == LENGTH - LENGTH // 2  # the first one behind the prefill


def test_a_cache_whose_keys_are_one_off(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.cache_utils import DynamicCache

    own = DynamicCache.update

    def shifted(self: Any, key: Any, value: Any, layer: int, *args: Any, **kwargs: Any) -> Any:
        keys, values = own(self, key, value, layer, *args, **kwargs)
        before = keys.shape[2] - key.shape[2]
        if layer == 1 and before:
            keys = torch.cat([keys[:, :, :before].roll(1, 2), keys[:, :, before:]], 2)
        return keys, values

    monkeypatch.setattr(DynamicCache, "update", shifted)
    first = parting(llama, "cache", "cache")
    assert (first.layer, first.stage, first.position) == (1, "k", 0)
    assert first.head in (0, 1)  # of key/value heads
    assert parting(llama, "chunks", "chunks").layer == 1


def test_chunks_whose_mask_is_aligned_to_the_upper_left(llama: LoadedModel) -> None:
    def upper_left(given: dict[str, Any]) -> None:
        mask = given["attention_mask"]
        if mask is not None and mask.shape[-1] > mask.shape[-2] > 1:
            given["attention_mask"] = torch.ones_like(mask).tril()

    with altered(llama.model.model.layers[0].self_attn, upper_left):
        found = verdicts(checked(llama, "cache", "chunks"))
        first = parting(llama, "chunks", "chunks")
    assert found["cache cache"] != "different"  # one token at a time has no such mask
    assert (first.layer, first.stage, first.position) == (0, "weights", 3)


def test_an_item_that_others_of_its_batch_seep_into(llama: LoadedModel) -> None:
    mlp = llama.model.model.layers[1].mlp
    handle = mlp.register_forward_hook(lambda _, given, made: made + 1e-4 * made.mean(0))
    try:
        first = parting(llama, "batch", "batch")
    finally:
        handle.remove()
    assert (first.where, first.layer, first.stage) == ("model.layers.1", 1, "layer output")
    assert first.head is None


@pytest.mark.parametrize("way", ["position ids", "document mask"])
def test_a_mask_that_leaks_one_token_between_packed_texts(llama: LoadedModel, way: str) -> None:
    def leaking(given: dict[str, Any]) -> None:
        mask = given["attention_mask"]
        if mask is not None and mask.shape[-1] > LENGTH + 3:  # packed, not padded
            opened = mask.clone()
            opened[..., 0] = True if mask.dtype == torch.bool else 0
            given["attention_mask"] = opened

    with altered(llama.model.model.layers[1].self_attn, leaking):
        first = parting(llama, "packing", way)
    assert (first.layer, first.stage, first.position) == (1, "weights", 0)
    assert first.outside > 0.1


def test_a_model_that_parts_nothing_has_not_passed(llama: LoadedModel) -> None:
    """Without any mask of documents nothing could leak: it is not held, and says so."""
    import transformers.masking_utils as masking

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "find_packed_sequence_indices", lambda _: None)
        found = checked(llama, "packing")["packing", "position ids"]
    assert found.verdict is None
    assert "does not part texts by positions that restart" in found.why


def test_a_small_leak_is_found_in_bfloat16(tmp_path_factory: pytest.TempPathFactory) -> None:
    from attn_cli.models.hf.loading import load
    from attn_cli.models.hf.options import LoadOptions
    from tests.unit.models.hf.making import folder_of

    source = folder_of(tmp_path_factory.mktemp("bfloat16"), "llama")
    loaded = load(LoadOptions(source=source, random_weights=True, seed=1, dtype="bfloat16"))
    with altered(loaded.model.model.layers[1].self_attn, no_mask):
        first = parting(loaded, "padding", "left")
    assert (first.layer, first.stage) == (1, "weights")
