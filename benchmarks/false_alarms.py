"""How often right code is called different: random inputs, every engine, stage by stage.

    python benchmarks/false_alarms.py [--inputs 1000] [--seed 0] [--layers]

Every input is drawn anew: sizes, grouped heads, the size of its numbers, masks, bias, cap, sinks;
with --layers token vectors, too, that go through positions and projections to an output.
An engine runs it in a precision of its own and is held, within the measured budget, against numpy
in float64; what the engine does not take is left out of its inputs. Both are right, so every
`different` is a false alarm; there should be none.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.budget import measure_budget
from attn_cli.core.compare import compare
from attn_cli.core.engine import GPU, Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Origin, Projections, make_qkv
from attn_cli.core.rounding import round_to
from attn_cli.core.trace import STAGES, Trace
from attn_cli.engines import ENGINES
from attn_cli.masks.file import Stored
from attn_cli.positions.alibi import Alibi, slopes
from attn_cli.positions.rope import Rope
from attn_cli.positions.sinusoidal import sinusoidal

Array = NDArray[Any]
RUNS = [
    (engine, dtype)
    for engine in ENGINES
    if ENGINES[engine].can.devices != GPU
    for dtype in ENGINES[engine].can.dtypes
]


def random_inputs(
    rng: np.random.Generator, dtype: str, refuses: Collection[str], *, longest: int
) -> AttentionInputs:
    """Unit normal q, k, v of random sizes times a random factor, half of them exact in `dtype`."""
    kv_heads, group = int(rng.integers(1, 3)), _group(rng, refuses)
    queries, keys = (int(rng.integers(1, longest + 1)) for _ in "qk")
    d_k, d_v = (int(2 ** rng.integers(0, 8)) for _ in "kv")
    d_v = d_k if "widths" in refuses else d_v
    size = float(10 ** rng.uniform(-1.5, 0.5))
    arrays = (
        rng.normal(size=(1, kv_heads * group, queries, d_k)) * size,
        rng.normal(size=(1, kv_heads, keys, d_k)),
        rng.normal(size=(1, kv_heads, keys, d_v)),
    )
    exact = rng.random() < 0.5
    q, k, v = (round_to(array, dtype) if exact else array for array in arrays)
    shape = (1, kv_heads * group, queries, keys)
    return AttentionInputs(q=q, k=k, v=v, **_extras(rng, shape, refuses))


def _group(rng: np.random.Generator, refuses: Collection[str]) -> int:
    """How many query heads read one key/value head."""
    group = int(rng.integers(1, 4))
    return 1 if "grouped" in refuses else group


def _extras(
    rng: np.random.Generator, shape: tuple[int, int, int, int], refuses: Collection[str]
) -> dict[str, Any]:
    """Each of the things that change the formula, in a third of the inputs."""
    extras: dict[str, Any] = {
        "mask": Stored(rng.random(shape) < rng.random()),
        "additive": np.where(rng.random(shape[2:]) < 0.3, -np.inf, rng.normal(size=shape[2:])),
        "bias": rng.normal(size=(shape[1], 1, shape[3])),
        "scale": float(10 ** rng.uniform(-1.5, 0)),
        "softcap": float(10 ** rng.uniform(0, 1.7)),
        "sinks": rng.normal(size=shape[1]) * 3,
    }
    chosen = {name: value for name, value in extras.items() if rng.random() < 1 / 3}
    return {name: value for name, value in chosen.items() if name not in refuses}


def random_layer(
    rng: np.random.Generator, dtype: str, refuses: Collection[str], *, longest: int
) -> AttentionInputs:
    """Normal token vectors of a random size through projections, with positions in two of three."""
    kv_heads, group = int(rng.integers(1, 3)), _group(rng, refuses)
    length = int(rng.integers(1, longest + 1))
    d_model, d_k, d_v = (int(rng.integers(1, most + 1)) * 2 for most in (48, 32, 32))
    d_v = d_k if "widths" in refuses else d_v
    heads = kv_heads * group
    out = {"q": heads * d_k, "k": kv_heads * d_k, "v": kv_heads * d_v, "o": d_model}
    matrices = {
        f"w_{name}": _matrix(rng, heads * d_v if name == "o" else d_model, width)
        for name, width in out.items()
    }
    biases = {f"b_{name}": rng.normal(size=width) for name, width in out.items()}
    origin = Origin(
        x=rng.normal(size=(1, length, d_model)) * float(10 ** rng.uniform(-1, 1)),
        heads=heads,
        kv_heads=kv_heads,
        encoding=sinusoidal(np.arange(length), d_model) if rng.random() < 1 / 3 else None,
        projections=Projections(**matrices, **(biases if rng.random() < 0.5 else {})),
    )
    extras = _extras(rng, (1, heads, length, length), refuses) | _positions(rng, heads)
    if "mask" in extras:
        extras["mask"] = Stored(extras["mask"].visible, extras.get("q_offset", 0))
    q, k, v = make_qkv(origin)
    return AttentionInputs(q=q, k=k, v=v, x=origin.x, origin=origin, **extras)


def _matrix(rng: np.random.Generator, before: int, after: int) -> Array:
    matrix: Array = rng.normal(size=(before, after)) / np.sqrt(before)
    return matrix


def _positions(rng: np.random.Generator, heads: int) -> dict[str, Any]:
    which, start = rng.integers(4), int(10 ** rng.uniform(0, 4))
    if which < 2:
        return {"rotation": Rope("half" if which else "interleaved"), "q_offset": start}
    return {"position_bias": Alibi(slopes(heads))} if which == 2 else {}


def traced(engine: str, inputs: AttentionInputs, dtype: str) -> Trace:
    """All that the engine shows."""
    ask = Ask(keep=ENGINES[engine].can.known(inputs), dtype=dtype)
    return ENGINES[engine].run(inputs, ask)


def expected(engine: str, oracle: Trace, stage: str) -> Array | None:
    """The stage as the engine has it, with what it puts into rows that see no key.

    None where NaN of such rows has been mixed into others.
    """
    right, fill = oracle[stage], ENGINES[engine].can.empty_row
    if fill == 0 or not oracle.empty.any():
        return right
    if stage == "weights":
        return np.where(oracle.empty[..., None], fill, right)
    if stage == "context":  # its heads have been through one projection, the identity
        mixed = np.asarray(oracle.empty.any(1, keepdims=True))
        return np.where(mixed[..., None], fill, right)
    return None if stage in ("merged", "output") else right


def count(
    number: int, *, seed: int, longest: int = 48, layers: bool = False
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Verdicts by (precision, verdict) over `number` inputs, and a line for every false alarm.

    With `layers` every stage from the token vectors to the output is compared, else those from the
    scores to the context.
    """
    drawn = random_layer if layers else random_inputs
    verdicts: Counter[tuple[str, str]] = Counter()
    alarms = []
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        engine, dtype = RUNS[case % len(RUNS)]
        inputs = drawn(rng, dtype, ENGINES[engine].can.refuses, longest=longest)
        oracle = traced("numpy", inputs, "float64")
        stages = [name for name in oracle.stages if layers or name in STAGES]
        budget = measure_budget(inputs, {name: oracle[name] for name in stages}, dtype=dtype)
        trace = traced(engine, inputs, dtype)
        for stage in stages:
            right = expected(engine, oracle, stage)
            if stage not in trace.stages or right is None:
                continue
            diff = compare(trace[stage], right, budget=budget[stage], dtype=dtype)
            verdicts[dtype, diff.verdict] += 1
            if diff.verdict == "different":
                alarms.append(f"seed [{seed}, {case}] {engine} {dtype} {stage}: {diff}")
    return verdicts, alarms


def main() -> None:
    parser = argparse.ArgumentParser(description="count the false alarms of the measured budget")
    parser.add_argument("--inputs", type=int, default=1000, help="how many inputs to draw")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other inputs")
    parser.add_argument("--layers", action="store_true", help="whole layers")
    given = parser.parse_args()
    verdicts, alarms = count(given.inputs, seed=given.seed, layers=given.layers)
    for dtype in dict.fromkeys(dtype for _, dtype in RUNS):
        row = {word: verdicts[dtype, word] for word in ("identical", "rounding", "different")}
        print(f"{dtype:<9} " + "  ".join(f"{word} {number:>6,}" for word, number in row.items()))
    print(f"false alarms {len(alarms):,} of {sum(verdicts.values()):,} stage comparisons")
    print("\n".join(alarms[:20]))


if __name__ == "__main__":
    main()
