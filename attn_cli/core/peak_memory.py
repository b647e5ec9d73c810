"""Peak memory: how far this process's resident memory rises while something runs."""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Callable
from pathlib import Path

HOW = "high-water mark of the process's resident memory"
RESOLUTION = 1 << 20  # bytes; below it pages that the kernel counts late and small blocks decide

_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_HIGH_WATER = "5"  # what sets the mark back to what is resident now (proc(5))


def peak_bytes(run: Callable[[], object]) -> int | None:
    """Bytes that `run` takes at its peak above what is there before; what it returns is in it.

    None where the system has no such mark that can be set back (it takes Linux's /proc).
    """
    if not _reset():
        run()
        return None
    _give_back()
    _reset()
    before = _resident("VmRSS")
    kept = run()
    peak = _resident("VmHWM")
    del kept
    return max(peak - before, 0)


def can_measure() -> bool:
    """Whether `peak_bytes` can tell."""
    return _reset()


def _reset() -> bool:
    try:
        _RESET.write_text(_HIGH_WATER)
        return _resident("VmHWM") > 0
    except OSError:
        return False


def _resident(field: str) -> int:
    """A line of /proc/self/status in bytes; 0 where it is not there."""
    found = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _give_back() -> None:
    """What was freed but kept for later, to the system: used again, it would count for nothing."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU C library
    if trim is not None:
        trim(0)
