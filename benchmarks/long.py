"""What attention in tiles costs on long sequences: one table of ratios, growth and memory.

    python -m benchmarks.long [--quick]

`tiled` (output, sum, entropy, maximum and distance of every row) takes turns with PyTorch's
scaled_dot_product_attention (the output alone), and with softmax and entropy of whole matrices;
ratios are medians over rounds of one run, after a warm-up. 4 heads × 64, float32, two threads.
Memory is measured in a process of its own, above inputs and outputs. It takes under ten minutes on
two idle cores; `--quick` takes lengths an eighth as long, to see that it runs.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_cli.core.growth import fitted
from attn_cli.core.masks import Mask
from attn_cli.core.peak_memory import peak_bytes
from attn_cli.core.statistics import Term
from attn_cli.core.timing import in_turn, median, ratio
from attn_cli.masks.base import And
from attn_cli.masks.causal import Causal
from attn_cli.masks.window import Window
from attn_cli.stats import STATISTICS
from attn_cli.tiled.kernel import Tiled, tiled_attention

HEADS, WIDTH, THREADS = 4, 64, 2
TERMS: Mapping[str, Term] = dict(STATISTICS["mean_distance"].terms)
NEAR = And((Causal(), Window(1024)))
MIB = 2**20

Inputs = tuple[Tensor, Tensor, Tensor]
Line = tuple[str, str, str]  # what, measured, aim


def drawn(length: int, *, heads: int = HEADS, dtype: torch.dtype = torch.float32) -> Inputs:
    """Unit normal q, k and v, seeded."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, WIDTH, generator=generator) for _ in range(3))
    return q.to(dtype), k.to(dtype), v.to(dtype)


def tiled(inputs: Inputs, mask: Mask | None) -> Tiled:
    return tiled_attention(*inputs, mask=mask, terms=TERMS)


def by_matrices(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Output, and entropy of the matrices of weights, as a few lines of PyTorch have them."""
    q, k, v = inputs
    w = torch.softmax(q @ k.mT * WIDTH**-0.5, -1)
    return w @ v, -(w * w.log()).sum(-1)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def times(runs: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, list[float]]:
    """The runs in turn; the first round warms up and is left out."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    calls = {name: partial(seconds, run) for name, run in runs.items()}
    for name, took in in_turn(calls, rounds=rounds + 1):
        taken[name].append(took)
    return {name: took[1:] for name, took in taken.items()}


def against_sdpa(length: int, *, rounds: int, causal: bool) -> Iterator[Line]:
    """tiled against the output alone, and where it fits in memory against whole matrices."""
    inputs, mask = drawn(length), Causal() if causal else None
    runs: dict[str, Callable[[], object]] = {
        "tiled": lambda: tiled(inputs, mask),
        "sdpa": lambda: F.scaled_dot_product_attention(*inputs, is_causal=causal),
    }
    if length <= 8192 and not causal:
        runs["n × n"] = lambda: by_matrices(inputs)
    taken = times(runs, rounds=rounds)
    name = f"{length:,} tokens, {'causal' if causal else 'full'}"
    both = f"{median(taken['tiled']):.2f} s : {median(taken['sdpa']):.2f} s"
    yield f"tiled ÷ sdpa, {name}", f"{ratio(taken['tiled'], taken['sdpa']):.2f}  ({both})", "≤ 1.5"
    if "n × n" in taken:
        times_as = ratio(taken["n × n"], taken["tiled"])
        yield f"n × n ÷ tiled, {name}", f"{times_as:.2f}", "≥ 5"


def windowed(lengths: tuple[int, ...], *, rounds: int) -> Iterator[Line]:
    """Time of one head under causal & window(1024), and how it grows."""
    inputs = {n: drawn(n, heads=1) for n in lengths}
    runs = {str(n): partial(tiled, inputs[n], NEAR) for n in lengths}
    taken = {name: median(took) for name, took in times(runs, rounds=rounds).items()}
    growth = fitted(lengths, [taken[str(n)] for n in lengths])
    span = f"{lengths[0]:,} to {lengths[-1]:,}"
    yield f"time, causal & window(1024), {span}", f"n^{growth.exponent:.2f}", "≤ n^1.1"
    last = lengths[-1]
    yield f"{last:,} tokens × 1 head, the same mask", f"{taken[str(last)]:.2f} s", "< 30 s"


def memory(lengths: tuple[int, ...]) -> Iterator[Line]:
    """Peak memory above inputs and outputs, each length in a process of its own."""
    peaks = [_peak_elsewhere(n) for n in lengths]
    growth = fitted(lengths, peaks)
    told = f"{peaks[-1] / MIB:.0f} MiB"
    yield f"peak memory, {lengths[-1]:,} tokens, causal", told, "≤ 100 MiB"
    yield f"memory, {lengths[0]:,} to {lengths[-1]:,}", f"n^{growth.exponent:.2f}", "≤ n^1.1"


def _peak_elsewhere(length: int) -> float:
    command = [sys.executable, "-m", "benchmarks.long", "--peak", str(length)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def peak(length: int) -> int:
    """Bytes above inputs and outputs at the peak of one run in this process."""
    inputs, small = drawn(length), drawn(1024)
    tiled(small, Causal())  # loads libraries and starts threads
    made: list[Tiled] = []
    taken = peak_bytes(lambda: made.append(tiled(inputs, Causal())))
    if taken is None:
        raise SystemExit("peak memory is read from /proc, which this system has not")
    return max(taken - _bytes(made[0]), 0)


def _bytes(made: Tiled) -> int:
    rows = made.rows
    numbers = [getattr(rows, name) for name in (*rows.NUMBERS, "visible", "empty")]
    return sum(t.nbytes for t in (made.context, *numbers, *rows.expected.values()))


def halves(length: int, *, rounds: int) -> Iterator[Line]:
    """bfloat16 against float32."""
    single, half = drawn(length), drawn(length, dtype=torch.bfloat16)
    runs = {"float32": partial(tiled, single, None), "bfloat16": partial(tiled, half, None)}
    taken = times(runs, rounds=rounds)
    share = ratio(taken["bfloat16"], taken["float32"])
    yield f"bfloat16 ÷ float32, {length:,} tokens, full", f"{share:.2f}", "reported"


def lines(*, part: int, rounds: int) -> Iterator[Line]:
    """Every figure; lengths are divided by `part`."""
    for length in (8192 // part, 16384 // part):
        for causal in (False, True):
            yield from against_sdpa(length, rounds=rounds, causal=causal)
    yield from windowed(tuple(n // part for n in (16384, 32768, 65536, 131072)), rounds=rounds)
    yield from memory(tuple(n // part for n in (8192, 16384, 32768)))
    yield from halves(4096 // part, rounds=rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description="what tiles cost on long sequences")
    parser.add_argument("--quick", action="store_true", help="lengths an eighth as long, one round")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(THREADS)
    if asked.peak:
        print(peak(asked.peak))
        return
    start = time.perf_counter()
    print(
        f"{HEADS} heads × {WIDTH}, float32, {THREADS} threads of {os.cpu_count()}, "
        f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, "
        f"python {platform.python_version()}\n"
        "tiled: output, sum, entropy, maximum and distance; sdpa: output\n"
    )
    with torch.no_grad():
        for what, measured, aim in lines(
            part=8 if asked.quick else 1, rounds=1 if asked.quick else 5
        ):
            print(f"{what:<52}{measured:<28}{aim}", flush=True)
    print(f"\nin {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
