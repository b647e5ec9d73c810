"""Versions: what made a trace."""

from __future__ import annotations

import platform
import sys

import numpy as np

from attn_cli.core.trace import Provenance
from attn_cli.version import __version__


def provenance(dtype: str, device: str) -> Provenance:
    """The versions that take part in a run, with its precision and device.

    `torch` is None where nothing has imported it: then it had no part.
    """
    torch = sys.modules.get("torch")
    return Provenance(
        attn=__version__,
        python=platform.python_version(),
        numpy=np.__version__,
        torch=None if torch is None else str(torch.__version__),
        device=device,
        dtype=dtype,
    )
