"""The process that runs somebody's code: `python -m attn_cli.diagnosis.host.child`.

Requests come in on standard input, answers go out on standard output; the code itself finds an
empty input and an output that goes to attn's notes. It ends when the pipe does.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import IO


def main() -> None:
    """Serves requests until the pipe ends."""
    asked, told = take_pipes()
    from attn_cli.diagnosis.host import wire
    from attn_cli.diagnosis.host.worker import Worker

    worker, own = Worker(echo=sys.__stderr__), os.getpid()
    while True:
        try:
            request = wire.receive(asked)
        except wire.Broken:
            os._exit(0)  # a thread of the code's own must not keep the process
        if (limit := request.get("limit")) is not None:
            # Says on stderr which line is running shortly before attn gives up waiting.
            faulthandler.dump_traceback_later(limit, file=2)
        answer = worker.handle(request)
        faulthandler.cancel_dump_traceback_later()
        if os.getpid() != own:
            os._exit(0)  # the code has forked: one answer is enough
        wire.send(told, answer)


def take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Keeps the pipes for itself, and gives the code an empty stdin and stderr as its stdout."""
    asked, told = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    faulthandler.enable(file=2)
    return asked, told


if __name__ == "__main__":
    main()
