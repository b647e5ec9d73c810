"""Threads: one for PyTorch while somebody's code is asked in this very process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside, as in a process of its own; as many as before afterwards.

    The arrays are small: handing them out to several costs more than computing them, and on a busy
    machine the threads wait for each other ten times as long.
    """
    torch = sys.modules.get("torch")  # code that has not imported it does not use it
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
