"""Right models: every way that applies gives the same numbers, and the others say why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_cli.core.results_model_ways import CHECKS
from attn_cli.models.hf.inputs import inputs_of_ids
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import LoadOptions
from attn_cli.models.hf.ways.checks import RUNNERS
from tests.unit.models.hf.making import folder_of, made
from tests.unit.models.hf.ways.running import checked, verdicts

SAME = {"identical", "rounding"}
NOT_HELD = {
    "mistral:sliding": {"packing document mask"},
    "gpt2": set[str](),
    "bert": {"cache cache", "chunks chunks", "packing position ids"},
    "t5": {"packing position ids", "packing document mask"},
    "falcon_h1": {"packing position ids", "packing document mask"},
}


def test_every_check_has_a_runner() -> None:
    assert list(RUNNERS) == list(CHECKS)


@pytest.mark.parametrize("name", NOT_HELD)
def test_a_right_model_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    found = checked(made(tmp_path, name))
    said = verdicts(found)
    assert {way for way, verdict in said.items() if verdict == "–"} == NOT_HELD[name]
    assert {verdict for verdict in said.values() if verdict != "–"} <= SAME
    for check in found.values():
        assert bool(check.why) == (check.verdict is None)
        assert check.parting is None
        if check.verdict is not None:
            assert check.compared > 0
            assert not check.left_out
            assert check.share < 1


def test_in_bfloat16_too(tmp_path: Path) -> None:
    source = folder_of(tmp_path, "gemma2")
    loaded = load(LoadOptions(source=source, random_weights=True, dtype="bfloat16"))
    said = verdicts(checked(loaded))
    assert set(said.values()) <= {*SAME, "–"}
    assert said["cache cache"] in SAME


def test_a_picture_has_a_batch_alone(tmp_path: Path) -> None:
    found = checked(made(tmp_path, "vit"))
    assert {n for (n, _), check in found.items() if check.verdict is not None} == {"batch"}
    assert "only a text" in found["padding", "left"].why


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return made(tmp_path_factory.mktemp("model"), "llama")


def test_texts_of_other_lengths_are_held_one_by_one(texts: LoadedModel) -> None:
    rows = [[5, 9, 3, 17, 30, 8], [4, 22, 11]]
    found = checked(texts, "batch", "cache", inputs=inputs_of_ids(texts, rows))
    assert found["batch", "batch"].words == "the 2 items together"
    assert found["batch", "batch"].compared == 5  # 2 calls, 2 layers, the output
    assert set(verdicts(found).values()) <= SAME


def test_one_token_has_nothing_to_cache(texts: LoadedModel) -> None:
    found = checked(texts, inputs=inputs_of_ids(texts, [[5]]))
    assert "is one token" in found["cache", "cache"].why
    assert found["padding", "left"].verdict in SAME


def test_a_text_that_fills_the_positions_is_not_padded(tmp_path: Path) -> None:
    loaded = made(tmp_path, "gpt2", n_positions=9)
    found = checked(loaded, "padding")
    assert {check.verdict for check in found.values()} == {None}
    assert "fills all 9 positions" in found["padding", "right"].why


def test_the_weights_of_the_model_and_its_hooks_are_left_alone(tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama")
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    checked(loaded, "cache", "packing")
    for name, tensor in loaded.model.state_dict().items():
        assert tensor.equal(before[name])
    for module in loaded.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
