"""require: an engine that cannot do what is asked refuses, and names one that can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.demands import DEMANDS, demands
from attn_cli.core.engine import Ask, Engine, require
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines import ENGINES
from attn_cli.errors import UnsupportedError
from tests.agreement.samples import drawn


def refused(engine: str, ask: Ask, inputs: AttentionInputs | None = None) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as refusal:
        require(
            ENGINES[engine],
            drawn(1) if inputs is None else inputs,
            ask,
            others=lambda: [ENGINES[name] for name in ENGINES if name != engine],
        )
    return refusal.value


def test_what_an_engine_can_do_passes() -> None:
    def never() -> list[Engine]:
        raise AssertionError("other engines need not be looked at")

    for name in ENGINES:
        can = ENGINES[name].can
        device = "cuda:1" if "cpu" not in can.devices else "cpu"
        for dtype in can.dtypes:
            ask = Ask(dtype=dtype, device=device, keep=can.shows(drawn(1)) & {"output"})
            require(ENGINES[name], drawn(1), ask, others=never)
    require(ENGINES["torch"], drawn(1), Ask(device="cuda:1"), others=never)


def test_numpy_has_no_bfloat16() -> None:
    error = refused("numpy", Ask(dtype="bfloat16"))
    assert error.message == (
        "engine numpy does not compute in bfloat16 (it does in float64, float32, float16)"
    )
    assert error.hint == "use --engine torch, sdpa, sdpa:math, sdpa:flash, mha, flex or tiled"


def test_numpy_runs_on_the_cpu_alone() -> None:
    error = refused("numpy", Ask(device="cuda:0"))
    assert error.message == "engine numpy runs on cpu, not on cuda:0"
    assert "torch" in error.hint


def test_where_no_engine_can_nothing_is_suggested() -> None:
    assert refused("torch", Ask(dtype="float8_e5m2")).hint == ""


def test_only_engines_that_can_are_named() -> None:
    error = refused("numpy", Ask(dtype="bfloat16"), drawn(1, sinks=np.zeros(2)))
    assert error.hint == "use --engine torch or tiled"


@pytest.mark.parametrize("engine", ["sdpa:efficient", "sdpa:cudnn"])
def test_what_needs_a_gpu_says_so(engine: str) -> None:
    error = refused(engine, Ask())
    assert error.message == f"engine {engine} needs a GPU: it runs on cuda, not on cpu"
    assert "numpy, torch, sdpa" in error.hint


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("sdpa", {"softcap": 5.0}, "a softcap: scaled_dot_product_attention has no parameter for it"),
    ("sdpa:math", {"sinks": np.zeros(2)}, "sinks: scaled_dot_product_attention has no parameter"),
    ("sdpa:flash", {"d_v": 5}, "d_v 5 beside d_k 8: PyTorch's flash kernel wants"),
    ("flex", {"sinks": np.zeros(2)}, "sinks: FlexAttention has none"),
    ("mha", {"heads": 4, "kv_heads": 2}, "4 query heads on 2 key/value heads: nn.Multihead"),
    ("mha", {"scale": 1.0}, "the scale 1: nn.MultiheadAttention always divides by √d_k"),
    ("mha", {"d_v": 5}, "d_v 5 beside d_k 8: nn.MultiheadAttention has one width"),
]


@pytest.mark.parametrize("engine, more, words", CASES)
def test_what_an_engine_does_not_take_is_said_with_the_reason(
    engine: str, more: dict[str, Any], words: str
) -> None:
    error = refused(engine, Ask(), drawn(1, **more))
    assert error.message.startswith(f"engine {engine} does not take {words}")
    assert error.hint.startswith(("use --engine numpy, torch", "use --engine numpy or torch"))
    assert engine not in error.hint.split(" ", 2)[2].replace(" or ", ", ").split(", ")


def test_a_stage_or_row_that_is_not_shown_is_refused() -> None:
    stage = refused("sdpa", Ask(keep=frozenset({"weights"})))
    assert stage.message == "engine sdpa does not show weights (it shows q, k, v, context, output)"
    assert stage.hint == "use --engine numpy, torch or mha"
    rows = refused("flex", Ask(top=3))
    assert rows.message.startswith("engine flex does not show its weights")


def test_every_reason_is_for_a_demand_that_there_is() -> None:
    for name in ENGINES:
        assert set(ENGINES[name].can.refuses) <= set(DEMANDS)


def test_every_demand_is_made_by_some_input() -> None:
    hard = drawn(
        1,
        heads=4,
        kv_heads=2,
        keys=6,
        d_v=5,
        scale=2.0,
        softcap=1.0,
        sinks=np.zeros(4),
        bias=np.zeros(6),
        additive=np.full(6, -np.inf),
    )
    hard.q[0, 0, 0, 0] = np.nan
    assert [demand for demand, _ in demands(hard)] == list(DEMANDS)
    assert list(demands(drawn(1))) == []
