"""attn_cli.run: the library in one call, on arrays, tensors, files and AttentionInputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import attn_cli
from attn_cli.core.trace import STAGES
from attn_cli.errors import AttnError, InputError
from tests.agreement.holding import run as run_engine
from tests.agreement.samples import SAMPLES, built, drawn

THREE = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]


def test_three_lines_of_somebodys_test() -> None:
    trace = attn_cli.run(THREE, mask="causal")
    np.testing.assert_allclose(trace["weights"][0, 0, 1], [0.26894, 0.73106, 0], atol=5e-6)
    assert not trace.empty.any()


@pytest.mark.parametrize("sample", list(SAMPLES))
def test_attention_inputs_go_to_the_engine_as_they_are(sample: str) -> None:
    inputs = SAMPLES[sample]()
    trace = attn_cli.run(inputs)
    expected = run_engine("numpy", inputs)
    for stage in STAGES:
        np.testing.assert_array_equal(trace[stage], expected[stage])


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_arrays_and_tensors_are_the_same(engine: str) -> None:
    plain = drawn(1, heads=4, kv_heads=2)
    arrays = {"q": plain.q, "k": plain.k, "v": plain.v}
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    first, second = (attn_cli.run(given, engine=engine) for given in (arrays, tensors))
    for stage in STAGES:
        np.testing.assert_array_equal(first[stage], second[stage])


def test_options_are_those_of_the_command(samples: Path) -> None:
    file = attn_cli.run(samples / "apple.json", heads=2, mask=["causal", "window(2)"])
    assert file["weights"].shape == (1, 2, 3, 3)
    assert (file["weights"][0, :, 2, 0] == 0).all()
    wide = attn_cli.run(THREE, scale="none")
    np.testing.assert_array_equal(wide["scaled"], wide["scores"])


def test_a_mask_is_put_over_the_one_that_is_there() -> None:
    plain = drawn(2)
    inputs = replace(plain, mask=built("causal", plain))
    trace = attn_cli.run(inputs, mask="window(2)")
    expected = run_engine("numpy", replace(plain, mask=built("causal & window(2)", plain)))
    np.testing.assert_array_equal(trace["weights"], expected["weights"])


def test_only_what_is_named_is_kept() -> None:
    assert list(attn_cli.run(THREE, keep=["output", "weights"]).stages) == ["weights", "output"]
    assert attn_cli.run(THREE, keep=[]).stages == {}


def test_findings_come_with_the_trace() -> None:
    trace = attn_cli.run(
        {"x": np.array(THREE, float), "mask": [[True] * 3, [False] * 3, [True] * 3]}
    )
    (empty,) = [finding for finding in trace.findings if finding.code == "empty-row"]
    assert empty.where.query == 1


def test_what_cannot_be_raises_an_error_that_says_so() -> None:
    for wrong, words in (
        ({"engine": "nunpy"}, "did you mean 'numpy'"),
        ({"mask": "casual"}, "did you mean 'causal'"),
        ({"dtype": "bfloat16"}, "engine numpy does not compute in bfloat16"),
        ({"keep": ["wieghts"]}, "did you mean 'weights'"),
        ({"heads": 3}, "does not split into 3 heads"),
    ):
        with pytest.raises(AttnError, match=words):
            attn_cli.run(THREE, **wrong)
    with pytest.raises(InputError):
        attn_cli.run({"q": np.ones((3, 4))})
