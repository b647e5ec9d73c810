"""Threads of PyTorch: one while tensors are small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread(small: bool) -> Iterator[None]:
    """One thread inside where things are `small`; as many as before afterwards.

    Handing small tensors out to several costs more than computing them, and on a busy machine the
    threads wait for each other ten times as long.
    """
    before = torch.get_num_threads()
    if small:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
