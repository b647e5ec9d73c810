"""The process in which one engine is measured: `python -m attn_cli.workflows.bench_child`.

Its argument says which engine, on what. Requests come in on standard input, answers go out on
standard output. It ends when the pipe does.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from attn_cli.diagnosis.host import wire
from attn_cli.diagnosis.host.child import take_pipes
from attn_cli.errors import AttnError
from attn_cli.workflows.bench_device import facts, finished, peak_bytes
from attn_cli.workflows.bench_options import BenchOptions, from_plain
from attn_cli.workflows.bench_subject import Subject, TooLarge, computes, prepared

SHORTEST = 0.01  # s; a run that takes less is repeated until this has gone by
MOST_CALLS = 1000
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
NO_ROOM = ("can't allocate memory", "out of memory")


class Measuring:
    """One engine and what it is measured on; `handle` never raises for what the engine does.

    Requests {"op": …}, in their order: know → what it computes; facts of the device; prepare
    {length, processes}; warm, an untimed run; peak, one whose memory is measured; time, a timed
    one. Answers are {"ok"} or {"why", "reason", "hint"}.
    """

    def __init__(self, engine: str, options: BenchOptions) -> None:
        self.engine, self.options = engine, options
        self.subject: Subject | None = None
        self.calls = 1  # how many runs are timed as one

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        operations: dict[str, Callable[[dict[str, Any]], Any]] = {
            "know": lambda _: {"computes": computes(self.engine, self.options)},
            "facts": lambda _: facts(self.options.device, self.options.dtype),
            "prepare": self._prepare,
            "warm": lambda _: self._run(),
            "peak": self._peak,
            "time": lambda _: {"seconds": self._seconds()},
        }
        try:
            return {"ok": operations[request["op"]](request)}
        except TooLarge as error:
            return _kept("memory", error.message)
        except AttnError as error:
            return _kept("unsupported", error.message, error.hint)
        except MemoryError:
            return _kept("memory", "memory ran out")
        except Exception as error:  # of a library: told as the reason, the other engines go on
            words = (str(error).splitlines() or [""])[0]
            if any(said in words.lower() for said in NO_ROOM):
                return _kept("memory", "memory ran out")
            return _kept("failed", f"{type(error).__name__}: {words}")

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        self.subject = None  # the numbers of the last length go before new ones come
        self.subject = prepared(
            self.engine, self.options, request["length"], processes=request["processes"]
        )
        return {"kernel": self.subject.kernel}

    def _run(self) -> object:
        assert self.subject is not None
        self.subject.run()
        return None

    def _peak(self, request: dict[str, Any]) -> dict[str, Any]:
        """The memory of a run, and how many of its kind a timed one needs."""
        assert self.subject is not None
        run, taken = self.subject.run, 0.0

        def once() -> object:
            nonlocal taken
            start = perf_counter()
            result = run()
            taken = perf_counter() - start
            return result

        peak = peak_bytes(once, self.options.device)
        self.calls = max(1, min(MOST_CALLS, int(SHORTEST / max(taken, 1e-9))))
        return {"peak_bytes": peak}

    def _seconds(self) -> float:
        """Of one run: the mean over as many as fill the shortest time that is measured."""
        assert self.subject is not None
        run, device = self.subject.run, self.options.device
        gc.collect()
        gc.disable()
        try:
            if self.calls > 1:
                run()  # what stood still has cold caches and sleeping threads
            finished(device)
            start = perf_counter()
            for _ in range(self.calls):
                run()
            finished(device)
            return (perf_counter() - start) / self.calls
        finally:
            gc.enable()


def _kept(why: str, reason: str, hint: str = "") -> dict[str, Any]:
    """The answer where there is no result."""
    return {"why": why, "reason": reason, "hint": hint}


def _end_with_parent() -> None:
    """Has Linux end this process with attn: one that stands still does not see its pipe end."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    if prctl is not None:
        prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def main() -> None:
    """Serves requests until the pipe ends."""
    _end_with_parent()
    asked, told = take_pipes()
    about = json.loads(sys.argv[1])
    measuring = Measuring(about["engine"], from_plain(about["options"]))
    while True:
        try:
            request = wire.receive(asked)
        except wire.Broken:
            os._exit(0)
        wire.send(told, measuring.handle(request))


if __name__ == "__main__":
    main()
