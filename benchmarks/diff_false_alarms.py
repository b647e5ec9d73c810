"""How often attn diff calls right code different, or blames it: random inputs, pairs of engines.

    python -m benchmarks.diff_false_alarms [--inputs 1000] [--seed 0] [--layers|--dumps]

Every input is drawn as in false_alarms.py. Two engines in two precisions of their own go through
`attn diff`; what either does not take is left out of its inputs, and so are masks with a row that
sees no key where one of the two has NaN there, as nn.MultiheadAttention. All are right, so every
stage that is `different`, and every fault of a side's own, is a false alarm; there should be none.

With --dumps the sides are what torch computes in two precisions, as dumps of which each lacks some
stages; one of them holds the masks.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from dataclasses import replace

import numpy as np

from attn_cli.core.engine import GPU, Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_diff import SIDES, DiffResult
from attn_cli.core.settings import Choices
from attn_cli.engines import ENGINES
from attn_cli.errors import UnsupportedError
from attn_cli.recognize.stage_dump import ORDER
from attn_cli.workflows.diff_engines import diff_reading
from attn_cli.workflows.diff_options import DiffOptions, EngineSide
from attn_cli.workflows.library import reading_of
from attn_cli.workflows.library_diff import diff
from benchmarks.false_alarms import Array, random_inputs, random_layer

RUNS = [
    EngineSide(engine, dtype)
    for engine in ENGINES
    if ENGINES[engine].can.devices != GPU
    for dtype in ENGINES[engine].can.dtypes
]
PAIRS = list(itertools.combinations(RUNS, 2))


def count(
    number: int, *, seed: int, longest: int = 48, layers: bool = False
) -> tuple[Counter[str], list[str], int]:
    """Verdicts over `number` inputs, a line for every false alarm, and how many were refused."""
    drawn = random_layer if layers else random_inputs
    verdicts: Counter[str] = Counter()
    alarms: list[str] = []
    refused = 0
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        left, right = PAIRS[rng.integers(len(PAIRS))]
        inputs = drawn(rng, right.dtype, _refused(left, right), longest=longest)
        inputs = _without_nan(inputs, left, right)
        try:
            result = diff_reading(reading_of(inputs, Choices()), (left, right), DiffOptions())
        except UnsupportedError:
            refused += 1
            continue
        verdicts.update(stage.verdict for stage in result.stages)
        alarms += [f"seed [{seed}, {case}] {left} {right}: {line}" for line in _alarms(result)]
    return verdicts, alarms, refused


def count_dumps(
    number: int, *, seed: int, longest: int = 32
) -> tuple[Counter[str], list[str], int]:
    """As `count`, over pairs of dumps."""
    verdicts: Counter[str] = Counter()
    alarms: list[str] = []
    for case in range(number):
        rng = np.random.default_rng([seed, case])
        dtypes = [str(rng.choice(ENGINES["torch"].can.dtypes)) for _ in SIDES]
        inputs = random_inputs(rng, dtypes[0], (), longest=longest)
        dumps = [_dump(rng, inputs, dtype) for dtype in dtypes]
        dumps[rng.integers(2)].update(_extras(inputs))
        result = diff(
            *dumps,
            scale=inputs.scale,
            softcap=inputs.softcap,
            layout=dict.fromkeys(SIDES, "bhld"),
            computed=dict(zip(SIDES, dtypes, strict=True)),
        )
        verdicts.update(stage.verdict for stage in result.stages)
        alarms += [f"seed [{seed}, {case}] {dtypes}: {line}" for line in _alarms(result)]
    return verdicts, alarms, 0


def _dump(rng: np.random.Generator, inputs: AttentionInputs, dtype: str) -> dict[str, Array]:
    """Most of the stages that torch shows in `dtype`, one at least."""
    ask = Ask(keep=frozenset(ORDER) & ENGINES["torch"].can.known(inputs), dtype=dtype)
    trace = ENGINES["torch"].run(inputs, ask)
    arrays = {name: stage.array for name, stage in trace.stages.items()}
    if trace.lse is not None:
        arrays["lse"] = trace.lse
    some = rng.random()
    kept = {name: array for name, array in arrays.items() if rng.random() > 0.8 * some}
    return kept or {"weights": arrays["weights"]}


def _extras(inputs: AttentionInputs) -> dict[str, Array]:
    """What changes the formula, by the names of a file."""
    extras = {"additive_mask": inputs.additive, "bias": inputs.bias, "sinks": inputs.sinks}
    extras["mask"] = None if inputs.mask is None else inputs.keep()
    return {name: array for name, array in extras.items() if array is not None}


def _refused(*sides: EngineSide) -> set[str]:
    return {demand for side in sides for demand in ENGINES[side.engine].can.refuses}


def _without_nan(inputs: AttentionInputs, *sides: EngineSide) -> AttentionInputs:
    """Without masks where a row sees no key, and an engine has something else than 0 there."""
    visible = inputs.visible()
    empty = visible is not None and not visible.any(-1).all()
    if not empty or all(ENGINES[side.engine].can.empty_row == 0 for side in sides):
        return inputs
    return replace(inputs, mask=None, additive=None)


def _alarms(result: DiffResult) -> list[str]:
    lines = []
    for stage in result.stages:
        wrong = stage.left.beyond or stage.right.beyond
        if stage.verdict == "different" or stage.faulty or wrong:
            lines.append(
                f"{stage.stage} {stage.verdict}, max {stage.max_abs:.3g} of {stage.budget:.3g}, "
                f"own fault {stage.faulty}"
            )
    codes = ("slope", "wrong-alike", "scaled-scores")
    return lines + [finding.message for finding in result.findings if finding.code in codes]


def main() -> None:
    parser = argparse.ArgumentParser(description="count the false alarms of attn diff")
    parser.add_argument("--inputs", type=int, default=1000, help="how many inputs to draw")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other inputs")
    parser.add_argument("--layers", action="store_true", help="whole layers")
    parser.add_argument("--dumps", action="store_true", help="dumps that lack stages")
    given = parser.parse_args()
    verdicts, alarms, refused = (
        count_dumps(given.inputs, seed=given.seed)
        if given.dumps
        else count(given.inputs, seed=given.seed, layers=given.layers)
    )
    print("  ".join(f"{word} {number:,}" for word, number in verdicts.most_common()))
    print(f"false alarms {len(alarms):,} of {sum(verdicts.values()):,} stage comparisons")
    print(f"{refused:,} of {given.inputs:,} inputs asked for what an engine cannot do")
    print("\n".join(alarms[:20]))


if __name__ == "__main__":
    main()
