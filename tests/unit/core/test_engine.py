"""require: an engine that cannot do what is asked refuses, and names one that can."""

from __future__ import annotations

import pytest

from attn_cli.core.engine import Ask, require
from attn_cli.engines import ENGINES
from attn_cli.errors import UnsupportedError


def refused(engine: str, ask: Ask) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as refusal:
        require(
            ENGINES[engine],
            ask,
            others=lambda: [ENGINES[name] for name in ENGINES if name != engine],
        )
    return refusal.value


def test_what_an_engine_can_do_passes() -> None:
    def never() -> list[object]:
        raise AssertionError("other engines need not be looked at")

    for name in ENGINES:
        for dtype in ENGINES[name].can.dtypes:
            require(ENGINES[name], Ask(dtype=dtype), others=never)  # type: ignore[arg-type]
    require(ENGINES["torch"], Ask(device="cuda:1"), others=never)  # type: ignore[arg-type]


def test_numpy_has_no_bfloat16() -> None:
    error = refused("numpy", Ask(dtype="bfloat16"))
    assert error.message == (
        "engine numpy does not compute in bfloat16 (it does in float64, float32, float16)"
    )
    assert "torch" in error.hint
    assert "--engine" in error.hint


def test_numpy_runs_on_the_cpu_alone() -> None:
    error = refused("numpy", Ask(device="cuda:0"))
    assert error.message == "engine numpy runs on cpu, not on cuda:0"
    assert "torch" in error.hint


def test_where_no_engine_can_nothing_is_suggested() -> None:
    assert refused("torch", Ask(dtype="float8_e5m2")).hint == ""
