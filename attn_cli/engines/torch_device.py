"""A device as PyTorch knows it: its threads and name, when it is done, how much memory it holds."""

from __future__ import annotations

from collections.abc import Callable

import torch

from attn_cli.torch_arrays import usable_device


def kind(device: str, dtype: str) -> str:
    """cpu, cuda, mps, …; UnsupportedError where it is not there or lacks `dtype`."""
    return usable_device(device, dtype).type


def threads() -> int:
    """How many threads PyTorch computes with."""
    return torch.get_num_threads()


def version() -> str:
    return str(torch.__version__)


def accelerator(device: str) -> str | None:
    """The name of a GPU; None of other devices."""
    return torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else None


def finish(device: str) -> None:
    """Waits until the device has done what it was given."""
    family = torch.device(device).type
    if family == "cuda":
        torch.cuda.synchronize(device)
    elif family == "mps":
        torch.mps.synchronize()
    else:
        torch.zeros(1, device=device).cpu()  # a copy waits for what was asked before it


def cuda_peak_bytes(run: Callable[[], object], device: str) -> int:
    """Bytes that PyTorch holds on a GPU at the peak of one run, above what it held before."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    kept = run()
    torch.cuda.synchronize(device)
    del kept
    return torch.cuda.max_memory_allocated(device) - before


def cuda_free_bytes(device: str) -> int:
    """Memory of a GPU that nobody holds."""
    free, _ = torch.cuda.mem_get_info(device)
    return int(free)
