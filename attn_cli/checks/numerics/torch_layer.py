"""One layer: what broke first in it, how saturated it is, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.numerics.torch_blocks import Way, threads_for
from attn_cli.checks.numerics.torch_culprit import of_input, of_stage
from attn_cli.checks.numerics.torch_figures import saturation
from attn_cli.checks.numerics.torch_gradients import gradients
from attn_cli.checks.numerics.torch_hunt import look_at_inputs, scan
from attn_cli.checks.places import axes_of, place_in_words
from attn_cli.core.engine import Progress
from attn_cli.core.findings import Place
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_numerics import Gradients, Hunt, Saturation

Array = NDArray[Any]


def look(
    inputs: AttentionInputs,
    dtype: str,
    *,
    compared: tuple[str, ...],
    seed: int,
    layer: int,
    progress: Progress | None,
) -> tuple[Hunt, Array, Saturation, Gradients]:
    """The hunt and the output of one layer in `dtype`, its saturation there and in `compared`."""
    dtypes = tuple(dict.fromkeys((dtype, *compared)))
    first, then = _halves(progress)
    with threads_for(inputs):
        found, output = hunt(inputs, dtype, layer=layer, progress=first)
        figures = saturation(inputs, dtypes=dtypes, seed=seed, layer=layer, progress=then)
        return found, output, figures, gradients(inputs, dtype, seed=seed, layer=layer)


def _halves(progress: Progress | None) -> tuple[Progress | None, Progress | None]:
    """Two steps that each count for half of one progress, in percent."""
    if progress is None:
        return None, None
    return (
        lambda done, total: progress(50 * done // total, 100),
        lambda done, total: progress(50 + 50 * done // total, 100),
    )


def hunt(
    inputs: AttentionInputs, dtype: str, *, layer: int = 0, progress: Progress | None = None
) -> tuple[Hunt, Array]:
    """What every stage holds in `dtype`, what made the first NaN or inf, and the output.

    The output is (B, H, L, d_v), of token vectors (B, L, ·), widened to float64.
    """
    arrays, given = look_at_inputs(inputs, dtype)
    found = scan(inputs, Way(dtype=dtype), progress=progress)
    stages = (given, *found.counts())
    first = next((stage for stage in stages if stage.bad), None)
    culprit = None
    if first is given:
        culprit = of_input(next(array for array in arrays if array.bad.any()), inputs, dtype)
    elif first is not None:
        culprit = of_stage(inputs, found, first)
    empty, words, sums = None, "", ""
    if found.first_on_the_way is not None:
        sums = place_in_words(inputs, "scores", found.first_on_the_way)
    if found.first_empty is not None:
        empty = Place(stage="masked", layer=layer, **axes_of("context", found.first_empty))
        words = place_in_words(inputs, "context", found.first_empty)
    result = Hunt(
        layer=layer,
        dtype=dtype,
        stages=stages,
        culprit=culprit,
        fills=found.fills,
        empty_rows=found.empty,
        first_empty=empty,
        first_empty_words=words,
        on_the_way=found.on_the_way,
        first_on_the_way=sums,
    )
    return result, np.stack(found.outputs)
