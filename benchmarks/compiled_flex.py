"""Whether compiled FlexAttention is eager FlexAttention: grouped heads and a mask, each precision.

    python -m benchmarks.compiled_flex [float32 float16 bfloat16 float64]

The engine `flex` is eager; what people run is compiled. Its arguments go through torch.compile as
they stand, once per precision, and the context is held against the eager one and against the budget
measured on the input. It needs a C++ compiler and takes up to a minute per precision. What PyTorch
does not compile is said.
"""

from __future__ import annotations

import argparse
import shutil
import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.attention.flex_attention import flex_attention

from attn_cli.core.around import Around
from attn_cli.core.budget import measure_budget
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.recorder import Recorder
from attn_cli.engines import ENGINES
from attn_cli.engines.torch_flex import STAGES, arguments
from attn_cli.masks.causal import Causal
from attn_cli.torch_arrays import to_numpy

COMPILERS = ("c++", "g++", "clang++", "cl")
SHAPE = (1, 4, 16, 16)  # items, query heads, length, width: no narrower width is compiled
KV_HEADS = 2


@dataclass(frozen=True, slots=True)
class Held:
    """How far compiled and eager contexts are apart, the eager one from float64, and the budget."""

    apart: float
    off: float
    budget: float


def compiler() -> str | None:
    """The first C++ compiler on the path."""
    return next((name for name in COMPILERS if shutil.which(name)), None)


def question(seed: int = 0) -> AttentionInputs:
    """Seeded numbers under a causal mask, two query heads for each key/value head."""
    rng, (batch, heads, length, width) = np.random.default_rng(seed), SHAPE
    sizes = (heads, KV_HEADS, KV_HEADS)
    q, k, v = (rng.standard_normal((batch, n, length, width)) for n in sizes)
    return AttentionInputs(q, k, v, mask=Causal())


def hold(dtype: str) -> Held:
    """Compiles FlexAttention in `dtype`; raises NotImplementedError where PyTorch does not."""
    inputs = question()
    right = {"context": ENGINES["numpy"].run(inputs, Ask(keep=frozenset({"context"})))["context"]}
    budget = measure_budget(inputs, right, dtype=dtype)["context"]
    around = Around(inputs, 0, Recorder("flex", inputs, Ask(dtype=dtype), STAGES))
    call = arguments(around, torch.device("cpu"), getattr(torch, dtype))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eager is slow, it says; and inductor's own deprecations
        eager = to_numpy(flex_attention(**call))
        try:
            compiled = to_numpy(torch.compile(flex_attention, dynamic=False)(**call))
        except Exception as error:
            if "NotImplementedError" in str(error):
                raise NotImplementedError(_sentence(str(error))) from None
            raise
    return Held(
        apart=float(np.abs(compiled.astype(np.float64) - eager).max()),
        off=float(np.abs(eager.astype(np.float64) - right["context"]).max()),
        budget=float(budget.min()),
    )


def _sentence(message: str) -> str:
    """The reason alone, out of what the compiler says of itself."""
    return message.partition("NotImplementedError: ")[2].partition("\n")[0].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="hold compiled FlexAttention against eager")
    parser.add_argument("dtypes", nargs="*", default=["float32", "float16", "bfloat16", "float64"])
    if compiler() is None:
        parser.exit(2, "there is no C++ compiler on the path\n")
    for dtype in parser.parse_args().dtypes:
        start = time.perf_counter()
        try:
            held = hold(dtype)
        except NotImplementedError as error:
            print(f"{dtype}: not compiled: {error}")
            continue
        took = time.perf_counter() - start
        print(f"{dtype}: {held.apart:.3g} apart, budget {2 * held.budget:.3g}, {took:.0f} s")


if __name__ == "__main__":
    main()
