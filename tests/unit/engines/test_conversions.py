"""Mistakes of conversion, planted into engines that hand attention to PyTorch, are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rounding import round_to
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES, torch_flex, torch_mha, torch_sdpa
from attn_cli.torch_arrays import to_tensor
from tests.agreement.holding import Oracle
from tests.agreement.samples import built, drawn

MODULES: dict[str, ModuleType] = {
    "sdpa": torch_sdpa,
    "sdpa:math": torch_sdpa,
    "sdpa:flash": torch_sdpa,
    "mha": torch_mha,
    "flex": torch_flex,
}
every_engine = pytest.mark.parametrize("engine", MODULES)
DTYPES = ["float64", "float32", "bfloat16"]


@pytest.fixture(scope="module")
def inputs() -> AttentionInputs:
    plain = drawn(90, batch=2, heads=2, queries=6, keys=6)
    return replace(plain, mask=built("window(3)", plain))


@pytest.fixture(scope="module")
def oracle(inputs: AttentionInputs) -> Oracle:
    return Oracle(inputs)


def shown(engine: str, inputs: AttentionInputs, dtype: str) -> Trace:
    return ENGINES[engine].run(inputs, Ask(keep=ENGINES[engine].can.known(inputs), dtype=dtype))


def different(oracle: Oracle, trace: Trace, dtype: str) -> list[str]:
    return [n for n, diff in oracle.diffs(trace, dtype).items() if diff.verdict == "different"]


FAULTS: dict[str, Callable[[Any], Any]] = {
    "polarity inverted": lambda mask: ~mask,
    "query and key swapped": lambda mask: mask.swapaxes(-1, -2),
    "one cell flipped": lambda mask: _flipped(mask),
    "shifted by one key": lambda mask: np.roll(mask, 1, -1),
}


def _flipped(mask: Any) -> Any:
    mask = mask.copy()
    mask[0, 4, 3] = ~mask[0, 4, 3]
    return mask


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", FAULTS)
@every_engine
def test_a_mask_that_is_converted_wrongly_is_found(
    engine: str,
    fault: str,
    dtype: str,
    inputs: AttentionInputs,
    oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert different(oracle, shown(engine, inputs, dtype), dtype) == []

    def wrong(array: Any, device: torch.device, kind: torch.dtype | None = None) -> torch.Tensor:
        return to_tensor(FAULTS[fault](array) if array.dtype == bool else array, device, kind)

    monkeypatch.setattr(MODULES[engine], "to_tensor", wrong)
    found = different(oracle, shown(engine, inputs, dtype), dtype)
    assert found == (["weights", "context"] if engine == "mha" else ["context"])


@pytest.mark.parametrize("dtype", DTYPES)
@every_engine
def test_a_precision_lost_on_the_way_is_found(
    engine: str,
    dtype: str,
    inputs: AttentionInputs,
    oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(array: Any, device: torch.device, kind: torch.dtype | None = None) -> torch.Tensor:
        narrow = array if array.dtype == bool else round_to(array, "bfloat16")
        return to_tensor(narrow, device, kind)

    monkeypatch.setattr(MODULES[engine], "to_tensor", wrong)
    found = different(oracle, shown(engine, inputs, dtype), dtype)
    assert ("context" in found) == (dtype != "bfloat16")


@pytest.mark.parametrize("name", ["q", "k", "v"])
@every_engine
def test_swapped_heads_are_found(
    engine: str, name: str, inputs: AttentionInputs, oracle: Oracle
) -> None:
    wrong = replace(inputs, **{name: getattr(inputs, name)[:, ::-1]})
    assert "context" in different(oracle, shown(engine, wrong, "float32"), "float32")


@pytest.mark.parametrize("change", ["scale", "bias"])
@pytest.mark.parametrize("engine", ["sdpa", "sdpa:math", "sdpa:flash", "flex"])
def test_one_percent_off_is_found_in_float32(
    engine: str, change: str, inputs: AttentionInputs
) -> None:
    bias = np.random.default_rng(91).normal(size=(6, 6))
    biased = replace(inputs, bias=bias)
    off: dict[str, Any] = {
        "scale": {"scale": inputs.effective_scale * 1.01},
        "bias": {"bias": bias * 1.01},
    }
    wrong = replace(biased, **off[change])
    oracle = Oracle(biased)
    assert different(oracle, shown(engine, biased, "float32"), "float32") == []
    assert different(oracle, shown(engine, wrong, "float32"), "float32") == ["context"]


def test_a_matrix_that_is_not_transposed_is_found() -> None:
    from attn_cli.core.budget import measure_budget
    from attn_cli.core.compare import compare
    from tests.agreement.layer_samples import layer

    right = layer(92, d_model=8, d_k=4, d_v=4)
    assert right.origin is not None
    assert right.origin.projections is not None
    for name in ("w_q", "w_k", "w_v", "w_o"):
        turned = replace(
            right.origin.projections, **{name: getattr(right.origin.projections, name).T}
        )
        wrong = replace(right, origin=replace(right.origin, projections=turned))
        output = shown("numpy", right, "float64")["output"]
        budget = measure_budget(right, {"output": output}, dtype="float32")["output"]
        for inputs, verdict in ((right, "rounding"), (wrong, "different")):
            came = shown("mha", inputs, "float32")["output"]
            assert compare(came, output, budget=budget, dtype="float32").verdict == verdict
