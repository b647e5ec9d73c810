"""The device of a measurement: its threads and versions, when it is done, how much it holds.

Where it is the CPU, PyTorch is loaded for `facts` alone.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np

from attn_cli.core import peak_memory
from attn_cli.core.memory import available_bytes
from attn_cli.version import __version__


def facts(device: str, dtype: str) -> dict[str, Any]:
    """Versions, threads, the accelerator's name, how memory is measured.

    UnsupportedError where PyTorch has no such device.
    """
    from attn_cli.engines import torch_device

    kind = torch_device.kind(device, dtype)
    return {
        "threads": torch_device.threads(),
        "versions": {
            "attn": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch_device.version(),
        },
        "device_name": torch_device.accelerator(device),
        "memory": _how(kind),
    }


def _how(kind: str) -> str:
    if kind == "cuda":
        return "torch.cuda.max_memory_allocated"
    if kind != "cpu":
        return f"not measured: PyTorch keeps no peak on {kind}"
    if peak_memory.can_measure():
        return peak_memory.HOW
    return "not measured: this system has no high-water mark that can be set back"


def finished(device: str) -> None:
    """Waits until the device has done what it was given."""
    if _family(device) != "cpu":
        from attn_cli.engines.torch_device import finish

        finish(device)


def peak_bytes(run: Callable[[], object], device: str) -> int | None:
    """Bytes above what is there before, at the peak of one run; None where nobody can tell."""
    if _family(device) == "cpu":
        return peak_memory.peak_bytes(run)
    if _family(device) != "cuda":
        run()
        return None
    from attn_cli.engines.torch_device import cuda_peak_bytes

    return cuda_peak_bytes(run, device)


def free_bytes(device: str) -> int | None:
    """Memory that is free where the run takes place; None: unknown."""
    if _family(device) != "cuda":
        return available_bytes()
    from attn_cli.engines.torch_device import cuda_free_bytes

    return cuda_free_bytes(device)


def _family(device: str) -> str:
    return device.partition(":")[0]
