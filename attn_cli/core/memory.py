"""Memory: how much is free, and the error for an n×n that does not fit."""

from __future__ import annotations

import os
from pathlib import Path

from attn_cli.errors import InputError

COSINES = 8  # how many (H, H) are in work while the heads are compared


def available_bytes() -> int | None:
    """Memory that may still be used: the machine's, less in a cgroup; None: unknown."""
    limits = [limit for limit in (_machine(), _cgroup()) if limit is not None]
    return min(limits, default=None)


def require_dense(
    shape: tuple[int, int, int, int],
    *,
    copies: int,
    kept: int,
    itemsize: int,
    available: int | None,
) -> None:
    """Raises InputError where (B, H, L, S) scores do not fit."""
    _, heads, queries, keys = shape
    need = dense_bytes(shape, copies=copies, kept=kept, itemsize=itemsize)
    if available is not None and need > available:
        raise InputError(
            f"{heads:,} × {queries:,} × {keys:,} scores need about {size(need)} of memory, "
            f"and {size(available)} are free",
            hint="a dense engine holds the whole query × key matrix: give fewer tokens or heads"
            + (", or keep fewer stages" if kept else ""),
        )


def dense_bytes(shape: tuple[int, int, int, int], *, copies: int, kept: int, itemsize: int) -> int:
    """What a run that holds (H, L, S) scores takes.

    One batch item takes `copies` of its (H, L, S) while it is in work, and every item `kept` more;
    the comparison of the heads takes (H, H).
    """
    batch, heads, queries, keys = shape
    one = heads * queries * keys * itemsize
    return one * copies + one * batch * kept + (COSINES + batch) * heads**2 * 8


def size(count: float) -> str:
    """A number of bytes in the largest binary unit that keeps it above 1."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} PiB"


def _machine() -> int | None:
    meminfo = Path("/proc/meminfo")
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # systems without /proc: all the memory there is
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _cgroup() -> int | None:
    root = Path("/sys/fs/cgroup")
    try:
        limit, used = (root / "memory.max").read_text(), (root / "memory.current").read_text()
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no cgroup, or "max": no limit
        return None
