"""Versions: what made a trace, found without importing what is not used."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from attn_cli.core.trace import Provenance
from attn_cli.version import __version__


@cache  # reading metadata takes milliseconds
def installed(package: str) -> str | None:
    """The installed version of a package, read from its metadata; None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def provenance(dtype: str, device: str, *, input_sha256: str | None = None) -> Provenance:
    """The versions on this machine with a run's precision and device."""
    return Provenance(
        attn=__version__,
        python=platform.python_version(),
        numpy=installed("numpy") or "",
        torch=installed("torch"),
        device=device,
        dtype=dtype,
        input_sha256=input_sha256,
    )
