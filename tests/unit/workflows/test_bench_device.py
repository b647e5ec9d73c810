"""What is asked of a device: the CPU without PyTorch, a GPU by PyTorch's own counters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core import peak_memory
from attn_cli.errors import UnsupportedError
from attn_cli.workflows import bench_device


def test_facts_are_pytorchs_own() -> None:
    told = bench_device.facts("cpu", "float32")
    assert told["threads"] == torch.get_num_threads()
    assert told["versions"]["torch"] == torch.__version__
    assert told["versions"]["numpy"] == np.__version__
    assert told["device_name"] is None
    known = peak_memory.HOW if peak_memory.can_measure() else "not measured"
    assert told["memory"].startswith(known)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="nowhere"):
        bench_device.facts("nowhere", "float32")


def test_a_gpu_is_asked_by_its_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, since there is no GPU in most places where this runs."""
    asked: list[str] = []

    def counter(name: str, answer: Any = None) -> Any:
        def call(device: str) -> Any:
            asked.append(f"{name} {device}")
            return answer

        return call

    for name, answer in (
        ("synchronize", None),
        ("reset_peak_memory_stats", None),
        ("memory_allocated", 100),
        ("max_memory_allocated", 350),
        ("mem_get_info", (7, 9)),
    ):
        monkeypatch.setattr(torch.cuda, name, counter(name, answer))
    assert bench_device.peak_bytes(lambda: asked.append("run"), "cuda:1") == 250
    assert asked == [
        "synchronize cuda:1",
        "reset_peak_memory_stats cuda:1",
        "memory_allocated cuda:1",
        "run",
        "synchronize cuda:1",
        "max_memory_allocated cuda:1",
    ]
    assert bench_device.free_bytes("cuda:1") == 7
    bench_device.finished("cuda:1")
    assert asked[-1] == "synchronize cuda:1"


def test_another_device_has_no_peak() -> None:
    ran: list[int] = []
    assert bench_device.peak_bytes(lambda: ran.append(1), "mps") is None
    assert ran == [1]
    assert bench_device._how("mps").startswith("not measured")
