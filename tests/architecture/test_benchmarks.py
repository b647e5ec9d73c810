"""The benchmarks run; what they measure is read by people, not asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_startup_prints_a_ratio() -> None:
    script = str(ROOT / "benchmarks" / "startup.py")
    done = subprocess.run(
        [sys.executable, script, "--rounds", "1"], capture_output=True, text=True, check=True
    )
    assert re.search(r"^ratio +\d+\.\d+ +\(limit 1\.5\)$", done.stdout, flags=re.MULTILINE)
