"""How long `attn run` takes on a sample, beside the smallest Typer app that loads the same things.

    python benchmarks/startup.py [--rounds 15]

The yardstick is a Typer app with one argument that imports numpy and rich.table. Both run in fresh
processes, in turn, so that whatever else the machine does falls on both; the medians and their
ratio are printed. The ratio is what to watch: at most 1.5.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from attn_cli.core.timing import in_turn, median

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample_inputs" / "apple.json"
LIMIT = 1.5

YARDSTICK = """
import typer

app = typer.Typer()


@app.command()
def show(name: str) -> None:
    import numpy as np
    from rich.table import Table

    print(name, np.float64(1), Table().title)


app()
"""


def seconds(command: list[str]) -> float:
    """Wall-clock time of one fresh process that must succeed."""
    # Bytecode is kept, as in ordinary use: whoever switches it off compiles attn at every start.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def measure(commands: dict[str, list[str]], *, rounds: int) -> dict[str, list[float]]:
    """Times of each command in s, the commands taking turns; a first round warms the caches."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    calls = {name: partial(seconds, command) for name, command in commands.items()}
    for name, taken in in_turn(calls, rounds=rounds + 1):
        times[name].append(taken)
    return {name: taken[1:] for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="start-up time of attn run, as a ratio")
    parser.add_argument("--rounds", type=int, default=15, help="timed runs of each")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        yardstick = Path(folder) / "yardstick.py"
        yardstick.write_text(YARDSTICK, encoding="utf-8")
        commands = {
            "yardstick": [sys.executable, str(yardstick), "name"],
            "attn run": [sys.executable, "-m", "attn_cli", "run", str(SAMPLE)],
        }
        times = measure(commands, rounds=rounds)
    medians = {name: median(values) for name, values in times.items()}
    for name, middle in medians.items():
        spread = f"{min(times[name]):.3f} to {max(times[name]):.3f}"
        print(f"{name:<10} median {middle:.3f} s  ({spread}, {rounds} runs)")
    print(f"ratio      {medians['attn run'] / medians['yardstick']:.2f}  (limit {LIMIT})")


if __name__ == "__main__":
    main()
