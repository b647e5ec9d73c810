"""A crew: one thread a core, each with its own tiles, where PyTorch would share every tile out.

A tile fits a core's own cache and its operations are short: shared out among threads, each of a
tile's steps would wait for all of them. PyTorch's own threads are set to one meanwhile, in every
thread of the crew: the number that OpenMP and MKL go by belongs to the thread that sets it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

Task = Callable[[int], None]  # told the number of the worker that does it


class Crew:
    """`size` workers, the caller among them; the tasks of a call are dealt out to and fro.

    Which worker does a task depends on nothing but its place, so sums come out the same each time;
    to and fro, because under a causal mask each task takes longer than the one before it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool = ThreadPoolExecutor(size - 1, initializer=_alone) if size > 1 else None
        self._stop = threading.Event()

    def run(self, tasks: Sequence[Task], after: Callable[[], None]) -> None:
        """Does all tasks; `after` is called by the caller's thread between its own."""
        others = [
            self._pool.submit(self._work, tasks, number)
            for number in range(1, min(self.size, len(tasks)))
            if self._pool is not None
        ]
        self._work(tasks, 0, after)
        for other in others:
            other.result()

    def _work(
        self, tasks: Sequence[Task], number: int, after: Callable[[], None] | None = None
    ) -> None:
        """One's own tasks; whoever fails or is interrupted stops the others."""
        try:
            with torch.no_grad():
                for place, task in enumerate(tasks):
                    if number != min(place % (2 * self.size), -(place + 1) % (2 * self.size)):
                        continue
                    if self._stop.is_set():
                        return
                    task(number)
                    if after is not None:
                        after()
        except BaseException:
            self._stop.set()
            raise

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _alone() -> None:
    torch.set_num_threads(1)


@contextlib.contextmanager
def crew(device: torch.device) -> Iterator[Crew]:
    """A crew of as many workers as PyTorch has threads, on the CPU; elsewhere the caller alone."""
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    if threads == 1:
        yield Crew(1)
        return
    workers = Crew(threads)
    torch.set_num_threads(1)
    try:
        yield workers
    finally:
        workers.close()
        torch.set_num_threads(threads)
