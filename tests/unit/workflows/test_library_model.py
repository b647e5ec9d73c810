"""run_model: a model from Python, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attn_cli
from attn_cli.core.trace import EVERY_STAGE
from attn_cli.errors import InputError
from tests.unit.models.files import toy


def test_every_layer_is_a_trace_with_the_steps_around_it(samples: Path) -> None:
    answer = attn_cli.run_model(samples / "sentence_model.safetensors", "我喜欢苹果")
    assert answer.tokens == ("我", "喜欢", "苹果")
    (layer,) = answer.layers
    assert [name for name in EVERY_STAGE if name in layer.stages] == list(layer.stages)
    assert layer.stages["logits"].axes == ("batch", "query", "vocabulary")
    assert {"embedded", "stream", "x", "residual", "final", "logits"} <= set(layer.stages)
    np.testing.assert_array_equal(layer["residual"], layer["stream"] + layer["output"])
    assert "longest-match" in {finding.code for finding in answer.findings}


def test_a_layer_begins_with_what_the_one_before_left(tmp_path: Path) -> None:
    path = toy(layers=3, norm="post").save(tmp_path / "toy.safetensors")
    first, second, third = attn_cli.run_model(path, "the cat sat").layers
    np.testing.assert_array_equal(first["normed"], second["x"])
    np.testing.assert_array_equal(second["normed"], third["x"])
    assert [trace.shapes[0].layer for trace in (first, second, third)] == [0, 1, 2]
    assert [trace.shapes[0].formula for trace in (second, third)] == [
        "normed of layer 0",
        "normed of layer 1",
    ]


def test_what_the_config_says_can_be_changed(samples: Path) -> None:
    path = samples / "induction.safetensors"
    free = attn_cli.run_model(path, "a b a", mask="none", scale=0.0)
    np.testing.assert_allclose(free.layers[0]["weights"], 1 / 3)


def test_findings_know_their_layer(samples: Path) -> None:
    answer = attn_cli.run_model(samples / "induction.safetensors", "a b a")
    for number, trace in enumerate(answer.layers):
        assert {finding.where.layer for finding in trace.findings} == {number}


def test_no_model_is_refused(samples: Path) -> None:
    with pytest.raises(InputError, match="holds no model"):
        attn_cli.run_model(samples / "apple.json", "a")


def test_run_sends_a_model_to_run_model(samples: Path) -> None:
    with pytest.raises(InputError, match="holds a model, which needs a text") as caught:
        attn_cli.run(str(samples / "induction.safetensors"))
    assert "attn_cli.run_model(" in caught.value.hint


def test_unspaced_text_that_is_no_token_is_refused(samples: Path) -> None:
    with pytest.raises(InputError, match="'xyz' is not in the model's vocabulary"):
        attn_cli.run_model(samples / "induction.safetensors", "a xyz")
