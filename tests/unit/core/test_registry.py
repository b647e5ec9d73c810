"""Registry: names that resolve on first use, and the error for one that is not there."""

from __future__ import annotations

import sys

import pytest

from attn_cli.core.registry import Registry, unknown_name
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.stats import STATISTICS


def test_an_entry_is_imported_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    registry: Registry[object] = Registry("thing", {"wave": "wave:Error"})
    assert "wave" in registry
    assert list(registry) == ["wave"]
    assert "wave" not in sys.modules
    assert registry["wave"] is sys.modules["wave"].Error


@pytest.mark.parametrize(
    "kind, name, near",
    [
        ("engine", "nunpy", "numpy"),
        ("engine", "pytorch", "torch"),
        ("statistic", "entrpy", "entropy"),
        ("engine", "NUMPY", "numpy"),
    ],
)
def test_a_near_miss_is_suggested(kind: str, name: str, near: str) -> None:
    registry: Registry[object] = {"engine": ENGINES, "statistic": STATISTICS}[kind]  # type: ignore[assignment]
    with pytest.raises(InputError) as refusal:
        registry[name]
    assert refusal.value.message == f"there is no {kind} {name!r}"
    assert refusal.value.hint.startswith(f"did you mean {near!r}? known: ")
    assert all(entry in refusal.value.hint for entry in registry)


def test_a_far_miss_only_lists_what_there_is() -> None:
    assert unknown_name("engine", "zzz", ("numpy", "torch")).hint == "known: numpy, torch"
