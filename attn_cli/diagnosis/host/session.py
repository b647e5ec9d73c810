"""Sessions: the ends of the pipe to the process with somebody's code, and one without a process."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from attn_cli.diagnosis.host import wire
from attn_cli.diagnosis.host.threads import one_thread
from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.diagnosis.host.worker import STEP_OF, Worker

LIMIT = 10.0  # seconds that one request may take
START_LIMIT = 60.0  # seconds until the process is there, with torch where the file wants it
IMPORT_LIMIT = 12.0  # seconds that the file itself may then take to be imported
_FAREWELL = 2.0  # seconds in which a process without its pipe must end
_KEPT = 20_000  # bytes of the last output of a process that died


class Session(Protocol):
    """Somebody's code, ready to be asked: see Worker for the requests and the answers."""

    def ask(self, request: dict[str, Any], *, limit: float = LIMIT) -> dict[str, Any]: ...

    def close(self) -> None: ...


class LocalSession:
    """The code in this very process: an object that no file's name leads to, or a file's.

    There is no time limit, and what ends the process ends it.
    """

    def __init__(self, target: Any = None) -> None:
        self.worker = Worker(target)

    def ask(self, request: dict[str, Any], *, limit: float = LIMIT) -> dict[str, Any]:
        with one_thread():
            return self.worker.handle(request)

    def close(self) -> None:
        """Nothing is held."""


class ChildSession:
    """A process that is started when it is first asked, and again after it died.

    A request that takes longer than its limit, or that ends the process, is answered by a trouble
    of kind "time" or "died"; the next one finds a new process in which everything that was asked
    for to prepare it (load, set) has been asked for again.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.prepared: dict[str, dict[str, Any]] = {}
        self.answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.said = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, request: dict[str, Any], *, limit: float = LIMIT) -> dict[str, Any]:
        """The process's answer, or a trouble that says how it ended."""
        if self.process is None:
            self._start()
            for earlier in self.prepared.values():
                if earlier["op"] == request["op"]:
                    continue
                again = self._ask(earlier, START_LIMIT)
                if self.process is None:  # it did not survive what it had survived before
                    return again
        if request["op"] in ("load", "set"):
            self.prepared[request["op"]] = request
        return self._ask(request, limit)

    def close(self) -> None:
        """Ends the process."""
        if (process := self.process) is not None:
            _kill(process)
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self.process = None

    def _start(self) -> None:
        # A session of its own: Ctrl-C is for attn, which then ends the process.
        self.answers, self.said = queue.SimpleQueue(), bytearray()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "attn_cli.diagnosis.host.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            start_new_session=os.name == "posix",
        )
        for reader in (_read_answers, _read_output):
            threading.Thread(target=reader, args=(self.process, self), daemon=True).start()

    def _ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        process = self.process
        assert process is not None
        assert process.stdin is not None
        if request["op"] == "load" and "file" in request:
            # torch is slow to start and what it needs is not the file's fault; a file is quick.
            warm = self._ask({"op": "warm", "file": request["file"]}, limit)
            if "trouble" in warm:
                return warm
            limit = min(limit, IMPORT_LIMIT)
        try:
            wire.send(process.stdin, {**request, "limit": limit})
            # The process says where it hangs when its limit is over, a moment before ours is.
            answer = self.answers.get(timeout=limit + 1.0)
        except queue.Empty:
            return self._ended(request, "time", f"it was still running after {limit:g} seconds")
        except (BrokenPipeError, OSError):
            answer = None
        except BaseException:  # Ctrl-C: no process may stay behind
            self.close()
            raise
        return self._ended(request, "died", None) if answer is None else answer

    def _ended(self, request: dict[str, Any], kind: str, message: str | None) -> dict[str, Any]:
        """The trouble of a request that the process did not survive."""
        process = self.process
        assert process is not None
        if message is None:
            message = _how_it_ended(process)
        self.close()
        said = bytes(self.said).decode(errors="replace")
        step = STEP_OF.get(request["op"], "build")
        load = request if request["op"] == "load" else self.prepared.get("load", {})
        line = _line_in(said, load.get("file"))
        return {"trouble": Trouble(step, kind, message, line).to_dict(), "printed": said}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the process, and whatever the code has started from it."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # its own group, see _start
    process.kill()


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_FAREWELL)
    except subprocess.TimeoutExpired:  # it lives on, but its pipe is closed or holds no messages
        return "it broke the pipe through which attn talks to it"
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return f"it ended the process {how}"


def _environment() -> dict[str, str]:
    """The environment of the process: attn importable, output not buffered, one thread for sums.

    The arrays are small; threads would cost more than they save, and may change the last digit.
    """
    home = str(Path(__file__).parents[3])  # the folder of attn_cli
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **single, **own}


def _read_answers(process: subprocess.Popen[bytes], session: ChildSession) -> None:
    """Puts every answer into the session's queue, None when the pipe ends."""
    answers = session.answers
    assert process.stdout is not None
    try:
        while True:
            answers.put(wire.receive(process.stdout))
    except (wire.Broken, ValueError, OSError):
        answers.put(None)


def _read_output(process: subprocess.Popen[bytes], session: ChildSession) -> None:
    """Keeps the end of what the process writes past Python: where it crashed, for one."""
    said = session.said
    assert process.stderr is not None
    with contextlib.suppress(ValueError, OSError):
        while part := process.stderr.read1(65536):  # type: ignore[attr-defined]
            said += part
            del said[:-_KEPT]


def _line_in(said: str, file: str | None) -> int | None:
    """The innermost line of `file` in a traceback as faulthandler writes it."""
    if file is None:
        return None
    found = re.findall(rf'File "{re.escape(file)}", line (\d+)', said)
    return int(found[0]) if found else None
