"""Capture leaves the model and transformers as they were, and refuses what it cannot vouch for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from transformers import AttentionInterface, AttentionMaskInterface

from attn_cli.core.model_calls import CallPlace
from attn_cli.errors import InputError, UndecidedError, UnsupportedError
from attn_cli.models.hf.arguments import read_arguments
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.forward import forward
from attn_cli.models.hf.inputs import inputs_of_ids
from attn_cli.models.hf.registering import eager_function, registered
from attn_cli.models.hf.same_output import check_outputs
from attn_cli.models.hf.stage_keeper import StageKeeper
from tests.unit.models.hf.making import drawn, made


class Raising:
    def see(self, call: AttentionCall) -> None:
        raise ZeroDivisionError


def state() -> tuple[Any, ...]:
    """What a capture touches while it runs."""
    return (
        dict(AttentionInterface._global_mapping),
        dict(AttentionMaskInterface._global_mapping),
        len(torch_module._global_forward_hooks),
        len(torch_module._global_forward_pre_hooks),
        torch.random.get_rng_state().tolist(),
    )


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
def test_everything_is_as_before(backend: str, tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama", backend=backend)
    inputs, before = drawn(loaded), state()
    capture(loaded, inputs)
    with pytest.raises(ZeroDivisionError):
        capture(loaded, inputs, [Raising()])
    assert state() == before
    assert loaded.model.config._attn_implementation == backend


def test_both_tables_answer_under_one_name() -> None:
    def attention() -> None: ...
    def mask() -> None: ...

    with registered("eager", attention, mask):
        assert AttentionInterface._global_mapping["eager"] is attention
        assert AttentionMaskInterface._global_mapping["eager"] is mask
    assert "eager" not in AttentionInterface._global_mapping
    assert AttentionMaskInterface._global_mapping["eager"] is not mask


def test_without_its_mask_a_causal_model_looks_ahead(tmp_path: Path) -> None:
    """Why attention and mask are registered together: a name without a mask hides nothing."""
    loaded = made(tmp_path, "llama")
    inputs = drawn(loaded)
    right = forward(loaded, inputs)["logits"]
    AttentionInterface.register("unmasked", eager_function(type(_attention(loaded.model))))
    try:
        loaded.model.set_attn_implementation("unmasked")
        wrong = forward(loaded, inputs)["logits"]
    finally:
        AttentionInterface._global_mapping.pop("unmasked")
        loaded.model.set_attn_implementation("sdpa")
    assert (wrong - right).abs().max() > 1e-3


def _attention(model: nn.Module) -> nn.Module:
    return model.get_submodule("model.layers.0.self_attn")


def test_another_model_that_runs_meanwhile_is_left_alone(tmp_path: Path) -> None:
    loaded = made(tmp_path / "a", "llama")
    other = made(tmp_path / "b", "mistral")

    class Meddling:
        def __init__(self) -> None:
            self.calls = 0

        def see(self, call: AttentionCall) -> None:
            self.calls += 1
            forward(other, drawn(other))

    meddling = Meddling()
    result = capture(loaded, drawn(loaded), [meddling])
    assert meddling.calls == len(result.coverage.calls) == 2


def test_layers_that_share_a_module_are_told_apart_by_turn(tmp_path: Path) -> None:
    loaded = made(tmp_path, "albert", num_hidden_groups=1)
    calls = capture(loaded, drawn(loaded)).coverage.calls
    path = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention"
    assert [call.place for call in calls] == [CallPlace(path, turn) for turn in range(4)]
    assert [call.layer for call in calls] == [0, 1, 2, 3]


def test_facts_of_a_call(tmp_path: Path) -> None:
    loaded = made(tmp_path, "gemma2")
    first = capture(loaded, drawn(loaded)).coverage.calls[0]
    assert (first.stack, first.layer, first.how, first.backend) == (
        "model",
        0,
        "interface",
        "eager",
    )
    assert (first.heads, first.kv_heads, first.queries, first.keys) == (4, 2, 12, 12)
    assert (first.layer_type, first.window, first.softcap) == ("sliding_attention", 8, 50.0)
    assert first.scaling == pytest.approx(20**-0.5)
    assert first.softmax_dtype == "float32"
    assert first.mask is not None
    assert first.mask.kind == "additive"
    assert first.mask.fill == np.finfo(np.float32).min
    assert first.mask.hidden == pytest.approx(1 - (8 * 12 - 28) / 144)  # windows of 8, cut at 0


def test_sinks_and_cross_attention_are_said(tmp_path: Path) -> None:
    sinks = made(tmp_path / "a", "gpt_oss")
    assert all(call.sinks for call in capture(sinks, drawn(sinks)).coverage.calls)
    pair = made(tmp_path / "b", "t5")
    calls = capture(pair, drawn(pair)).coverage.calls
    assert [call.cross for call in calls] == [False, False, *[False, True] * 3]
    assert all(call.position_bias for call in calls if not call.cross)
    assert {call.q_offset for call in calls if call.cross} == {None}


def test_padding_hides_keys(tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama")
    keeper = StageKeeper(("weights", "masked"))
    capture(loaded, inputs_of_ids(loaded, [[5, 6, 7, 8], [9, 10]]), [keeper])
    kept = next(iter(keeper.kept.values()))
    assert (kept["weights"][1, :, 1, 2:] == 0).all()
    assert (kept["masked"][1, :, 1, 2:] <= -1e4).all()
    np.testing.assert_allclose(kept["weights"][0].sum(-1), 1, rtol=1e-6)


def test_a_cache_moves_the_queries(tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama")
    inputs = drawn(loaded)
    ids = inputs.tensors["input_ids"]
    whole = StageKeeper(("weights",))
    capture(loaded, inputs, [whole])
    start = inputs.with_tensors(
        input_ids=ids[:, :8], attention_mask=inputs.tensors["attention_mask"][:, :8]
    )
    raw = capture(loaded, start, use_cache=True).raw
    rest = StageKeeper(("weights",))
    more = inputs.with_tensors(input_ids=ids[:, 8:])
    name = "cache" if "cache" in raw else "past_key_values"
    result = capture(loaded, more, [rest], verify=False, use_cache=True, **{name: raw[name]})
    assert result.coverage.calls[0].q_offset == 8
    for place, kept in rest.kept.items():
        np.testing.assert_allclose(
            kept["weights"], whole.kept[place]["weights"][:, :, 8:], rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("name", ["llama", "falcon", "bloom"])
def test_an_edit_moves_the_output(name: str, tmp_path: Path) -> None:
    loaded = made(tmp_path, name)
    inputs = drawn(loaded)

    def without_first(call: AttentionCall, weights: Tensor) -> Tensor:
        weights = weights.clone()
        weights[..., 0] = 0
        return weights

    plain = forward(loaded, inputs)["logits"]
    same = capture(loaded, inputs, edit=lambda call, weights: weights).outputs["logits"]
    torch.testing.assert_close(same, plain)
    moved = capture(loaded, inputs, edit=without_first)
    assert moved.check is None
    assert (moved.outputs["logits"] - plain).abs().max() > 1e-4


def test_a_layer_that_does_otherwise_is_not_reported(tmp_path: Path) -> None:
    """An attention function that squares its weights: its context gives it away."""
    loaded = made(tmp_path, "llama", backend="eager")
    module = type(_attention(loaded.model))
    file = sys.modules[module.__module__]
    own = file.eager_attention_forward

    def squared(*args: Any, **kwargs: Any) -> Any:
        output, weights = own(*args, **kwargs)
        return output * 1.01, weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "eager_attention_forward", squared)
        with pytest.raises(UndecidedError, match=r"model\.layers\.0\.self_attn computes something"):
            capture(loaded, drawn(loaded))


def test_an_output_that_changes_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = made(tmp_path, "llama")
    runs: list[int] = []
    own = loaded.model.forward

    def drifting(*args: Any, **kwargs: Any) -> Any:
        runs.append(0)
        result = own(*args, **kwargs)
        result.logits = result.logits + len(runs) * 1e-3
        return result

    inputs = drawn(loaded)
    monkeypatch.setattr(loaded.model, "forward", drifting)
    with pytest.raises(UndecidedError, match="gives another output while it is watched: logits is"):
        capture(loaded, inputs)


def test_outputs_are_held_with_rounding() -> None:
    alone = {"logits": torch.tensor([1.0, float("nan"), -float("inf")])}
    near = {"logits": alone["logits"] + torch.tensor([2e-7, 0, 0])}
    far = {"logits": alone["logits"] + torch.tensor([1e-3, 0, 0])}
    other = {"logits": torch.tensor([1.0, 2.0, -float("inf")])}
    verdicts = [check_outputs(seen, alone).verdict for seen in (alone, near, far, other, {})]
    assert verdicts == ["identical", "rounding", "different", "different", "different"]


def test_an_unknown_argument_that_is_computed_with_stops_the_run() -> None:
    def attend(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        scaling: float,
        temper: float | None = None,
        **kwargs: Any,
    ) -> None: ...

    q = torch.zeros(1, 1, 2, 4)
    given = {"scaling": 0.5, "temper": 2.0, "seq_idx": 3}
    with pytest.raises(UnsupportedError, match="'temper', which changes its attention"):
        read_arguments(nn.Identity(), q, None, given, function=attend, backend="eager")
    read = read_arguments(
        nn.Identity(), q, None, {**given, "temper": None}, function=attend, backend="eager"
    )
    assert (read.scaling, read.along) == (0.5, ("seq_idx",))


def test_a_model_that_refuses_its_input_is_one_line(tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama")
    inputs = drawn(loaded).with_tensors(input_ids=torch.ones(1, 12))
    with pytest.raises(InputError, match="LlamaForCausalLM does not take this input"):
        forward(loaded, inputs)


def test_a_fault_of_an_observer_is_not_the_input_s(tmp_path: Path) -> None:
    class Faulty:
        def see(self, call: AttentionCall) -> None:
            raise ValueError("of its own")

    loaded = made(tmp_path, "llama")
    with pytest.raises(ValueError, match="of its own"):
        capture(loaded, drawn(loaded), [Faulty()])
