"""BenchProcess: attn's end of the pipe to the process in which one engine is measured."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attn_cli.diagnosis.host import wire
from attn_cli.workflows.bench_options import BenchOptions

PREPARING = 300.0  # s; that importing torch and making the numbers may take
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class BenchProcess:
    """One engine in a process of its own, started once; what it answers, or how it ended.

    An answer is {"ok": …} or {"why", "reason"}. Between requests the process stands still. A
    request that takes too long ends it, and one that has ended answers nothing but how.
    """

    def __init__(self, engine: str, options: BenchOptions, *, threads: int | None) -> None:
        self.engine, self.warmed = engine, False
        self.over: dict[str, Any] | None = None  # how it ended
        self.answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        about = json.dumps({"engine": engine, "options": asdict(options)})
        # A session of its own: Ctrl-C is for attn, which then ends the process.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "attn_cli.workflows.bench_child", about],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(threads),
            start_new_session=os.name == "posix",
        )
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, op: str, *, limit: float = PREPARING, **fields: Any) -> dict[str, Any]:
        """The answer to one request, in at most `limit` seconds."""
        if self.over is not None:
            return self.over
        assert self.process.stdin is not None
        self._signal("SIGCONT")
        with contextlib.suppress(OSError):  # it has ended, which its answer says
            wire.send(self.process.stdin, {"op": op, **fields})
        answer = self._answer(limit)
        self._signal("SIGSTOP")  # its threads would spin a while, in the way of the next engine
        return answer

    def _signal(self, name: str) -> None:
        """Stops the process or lets it go on, on systems that can."""
        if hasattr(signal, name):
            with contextlib.suppress(OSError):
                self.process.send_signal(getattr(signal, name))

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _answer(self, limit: float) -> dict[str, Any]:
        try:
            answer = self.answers.get(timeout=limit)
        except queue.Empty:
            self.over = {"why": "time", "reason": f"it took longer than {limit:g} s"}
        else:
            if answer is not None:
                return answer
            self.over = {"why": "died", "reason": _how_it_ended(self.process.wait())}
        self.close()
        return self.over

    def _read(self) -> None:
        """Puts every answer into the queue, None when the pipe ends."""
        assert self.process.stdout is not None
        try:
            while True:
                self.answers.put(wire.receive(self.process.stdout))
        except (wire.Broken, ValueError, OSError):
            self.answers.put(None)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    killed = ", as where memory runs out" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{killed}"


def _environment(threads: int | None) -> dict[str, str]:
    """attn importable, and so many threads where that is said."""
    home = str(Path(__file__).parents[2])  # the folder of attn_cli
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    chosen = {} if threads is None else dict.fromkeys(THREADS, str(threads))
    return {**os.environ, **chosen, "PYTHONPATH": os.pathsep.join(paths)}
