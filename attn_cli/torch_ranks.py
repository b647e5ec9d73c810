"""Ranks by torch.distributed: gloo on the CPU, nccl on GPUs; a store tells who is how far."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from attn_cli.core.ranks import PartDone, Place
from attn_cli.errors import AttnError, UnsupportedError

Array = NDArray[Any]

SILENT = 120.0  # s; a process that says nothing for so long is lost
LOOK = 0.05  # s between two looks while waiting
EVERY = 0.5  # s between two words to the others while computing
GO, STOP, END = "collect", "stop", "end"


class Lost(AttnError):
    """Another process has failed, or has gone."""


class TorchRanks:
    """The processes of one run. Each says in the store how many rows it has done and how it ended;
    the first one waits for all, then takes their parts, so that nobody waits for one that failed.
    """

    def __init__(
        self, place: Place, store: Any, device: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.place, self.store, self.device, self.clock = place, store, device, clock
        self.told = -EVERY
        self.rows = 0
        self.last = dict.fromkeys(range(place.size), ("", clock()))
        store.set(f"beat/{place.rank}", "0 0")

    def beat(self, done: int) -> int:
        if self.clock() - self.told >= EVERY:
            self.told = self.clock()
            self.store.set(f"beat/{self.place.rank}", f"{done} {self.told}")
            if self.place.rank and self._state(0) == STOP:
                raise Lost("the first process has given the run up")
            beats = [self._beat(rank) for rank in self._others()]
            self.rows = sum(int(beat.split()[0]) for beat in beats if beat)
        return done + self.rows

    def hand_over(self, parts: list[dict[str, Array]]) -> None:
        self.store.set(f"state/{self.place.rank}", "done")
        self._wait_for(0, lambda state: state in (GO, STOP))
        if self._state(0) == STOP:
            raise Lost("the first process has given the run up")
        for part in parts:
            for name in sorted(part):
                dist.send(torch.from_numpy(_widened(part[name])).to(self.device), 0)
        with suppress(RuntimeError):  # the first process has what it needs, and may be gone
            self._wait_for(0, lambda state: state in (END, STOP))
        raise PartDone

    def collect(
        self, shapes: Callable[[int], list[dict[str, tuple[int, ...]]]], like: dict[str, Array]
    ) -> list[list[dict[str, Array]]]:
        for rank in self._others():
            self._wait_for(rank, bool)
            if (state := self._state(rank)) != "done":
                raise Lost(*_said(rank, state))
        self.store.set("state/0", GO)
        parts = [
            [self._received(rank, expected, like) for expected in shapes(rank)]
            for rank in self._others()
        ]
        self.store.set("state/0", END)
        return parts

    def failed(self, message: str, hint: str) -> None:
        """Tells the others that this process has failed, and why; they then end, too."""
        said = STOP if self.place.rank == 0 else json.dumps([message, hint])
        with suppress(RuntimeError):  # the store is gone, and with it those that wait
            self.store.set(f"state/{self.place.rank}", said)

    def _received(
        self, rank: int, expected: dict[str, tuple[int, ...]], like: dict[str, Array]
    ) -> dict[str, Array]:
        part: dict[str, Array] = {}
        for name in sorted(expected):
            dtype = torch.float64 if like[name].dtype.kind == "f" else torch.int64
            tensor = torch.empty(expected[name], dtype=dtype, device=self.device)
            dist.recv(tensor, rank)
            part[name] = tensor.cpu().numpy().astype(like[name].dtype, copy=False)
        return part

    def _wait_for(self, rank: int, ready: Callable[[str], bool]) -> None:
        """Until a process has said how it stands; Lost where it says nothing for too long."""
        while not ready(self._state(rank)):
            self.store.set(f"beat/{self.place.rank}", f"{self.rows} {self.clock()}")
            beat, (before, since) = self._beat(rank), self.last[rank]
            if beat != before:
                self.last[rank] = beat, self.clock()
            elif self.clock() - since > SILENT:
                raise Lost(f"rank {rank} has said nothing for {SILENT:.0f} s")
            time.sleep(LOOK)

    def _others(self) -> list[int]:
        return [rank for rank in range(self.place.size) if rank != self.place.rank]

    def _state(self, rank: int) -> str:
        return self._read(f"state/{rank}")

    def _beat(self, rank: int) -> str:
        return self._read(f"beat/{rank}")

    def _read(self, key: str) -> str:
        return str(self.store.get(key).decode()) if self.store.check([key]) else ""


def _widened(array: Array) -> Array:
    """The array in one of the two dtypes that pass between processes, with the same numbers."""
    return np.ascontiguousarray(array, np.float64 if array.dtype.kind == "f" else np.int64)


def _said(rank: int, state: str) -> tuple[str, str]:
    message, hint = json.loads(state)
    return f"rank {rank}: {message}", hint


@contextmanager
def connected(place: Place, device: str) -> Iterator[TorchRanks]:
    """This process among the others, for as long as the run lasts.

    What is raised here is told to the others: none waits for this one. Raises UnsupportedError
    where they cannot be reached.
    """
    own = place.device(device)
    backend = "nccl" if own.startswith("cuda") else "gloo"
    if backend == "nccl" and place.local >= torch.cuda.device_count():
        raise UnsupportedError(
            f"rank {place.rank} is process {place.local} of its machine, and there are "
            f"{torch.cuda.device_count()} GPUs: each process needs one of its own",
            hint="start as many processes as there are GPUs, or use --device cpu",
        )
    wait = timedelta(seconds=SILENT)
    try:
        store, _, _ = next(rendezvous("env://", timeout=wait))
        store.set_timeout(wait)
        ranks = TorchRanks(place, PrefixStore("attn", store), own)
        group = PrefixStore("group", store)
        dist.init_process_group(
            backend, store=group, rank=place.rank, world_size=place.size, timeout=wait
        )
    except (RuntimeError, ValueError, OSError) as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise UnsupportedError(f"the processes do not find each other: {first}") from error
    try:
        yield ranks
    except PartDone:
        raise
    except AttnError as error:
        ranks.failed(error.message, error.hint)
        raise
    except BaseException as error:
        ranks.failed(f"attn itself failed: {type(error).__name__}: {error}", "")
        raise
    finally:
        dist.destroy_process_group()
