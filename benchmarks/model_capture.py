"""What it costs to have every statistic of every layer: a captured forward against a plain one.

    python -m benchmarks.model_capture [--tokens 1024 2048] [--layers 12] [--rounds 3] [--cpu-time]

A model of GPT-2's size with random weights runs on the same text, plain (PyTorch's SDPA), captured
with the statistics of every layer and head, and the usual way: eager attention that returns its
matrices, and the entropy of each. The ways take turns within one process; the least time of each
counts, and what is read are ratios to the plain forward. The target for the captured one is 1.5.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

import torch
from transformers import GPT2Config

from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.diagonals import PREVIOUS_WEIGHT, SELF_WEIGHT
from attn_cli.models.hf.forward import forward
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import InputOptions, LoadOptions
from attn_cli.models.hf.reading import read_inputs
from attn_cli.models.hf.row_statistics import RowStatistics
from attn_cli.stats import STATISTICS

TARGET = 1.5


def model(folder: str, *, layers: int, tokens: int, backend: str) -> LoadedModel:
    """GPT-2's sizes with random weights: 12 heads of 64, a vocabulary of 50,257."""
    config = GPT2Config(n_layer=layers, n_positions=tokens, architectures=["GPT2LMHeadModel"])
    config.save_pretrained(folder)
    return load(LoadOptions(source=folder, random_weights=True, backend=backend))


def least(
    ways: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """The least time of every way, in seconds; the ways take turns."""
    times = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            start = clock()
            way()
            times[name] = min(times[name], clock() - start)
    return times


def measure(tokens: int, layers: int, rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of the plain forward, the captured one and the usual way."""
    stats = [*(STATISTICS[name] for name in STATISTICS), SELF_WEIGHT, PREVIOUS_WEIGHT]
    with tempfile.TemporaryDirectory() as folder:
        plain = model(folder, layers=layers, tokens=tokens, backend="sdpa")
        eager = model(folder, layers=layers, tokens=tokens, backend="eager")
    inputs = read_inputs(plain, InputOptions(drawn=tokens))

    def usual() -> list[torch.Tensor]:
        with torch.no_grad():
            maps = eager.model(**inputs.tensors, output_attentions=True).attentions
            return [torch.special.entr(each).sum(-1) for each in maps]

    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: forward(plain, inputs),
        "captured": lambda: capture(plain, inputs, [RowStatistics(stats)], verify=False),
        "usual": usual,
    }
    return least(ways, rounds, clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu-time", action="store_true", help="for a machine that others use")
    given = parser.parse_args()
    clock = time.process_time if given.cpu_time else time.perf_counter
    for tokens in given.tokens:
        times = measure(tokens, given.layers, given.rounds, clock)
        plain = times.pop("plain")
        print(f"{tokens:,} tokens, {given.layers} layers: plain {plain:.2f} s")
        for name, seconds in times.items():
            limit = f"  (target {TARGET})" if name == "captured" else ""
            print(f"  {name:<9} {seconds / plain:.2f} ×{limit}")


if __name__ == "__main__":
    main()
