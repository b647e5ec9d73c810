"""The default cases of `attn check grads`: small questions that leave no part of attention out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.draws import normal
from attn_cli.core.dump import Dump
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.settings import Align, Choices
from attn_cli.recognize import understand
from attn_cli.recognize.one_array import load_array

Array = NDArray[Any]
INF = float("inf")


@dataclass(frozen=True, slots=True)
class Case:
    """One question: q, k and v of these sizes (or token vectors x), and what is done to them.

    The sizes of a case differ as far as it allows, so that no two axes can be mistaken for each
    other. `added` names further arrays and their shapes; `broken` sets a number of an array to NaN.
    """

    name: str
    q: tuple[int, ...] = ()
    kv: tuple[int, ...] = ()  # (B, Hkv, S)
    d_v: int = 0
    x: tuple[int, ...] = ()
    context: tuple[int, ...] = ()
    added: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    broken: Sequence[tuple[str, tuple[int, ...]]] = ()
    choices: Choices = field(default_factory=Choices)


LATE: Align = "lower-right"
CASES: tuple[Case, ...] = (
    Case("multi-head", (1, 2, 3, 5), (1, 2, 4), 6),
    Case("grouped", (1, 6, 3, 5), (1, 2, 4), 7),
    Case("multi-query", (1, 3, 2, 6), (1, 1, 4), 5),
    Case("causal", (1, 2, 4, 3), (1, 2, 6), 5, choices=Choices(masks=("causal",), align=LATE)),
    Case(
        "window, keys that nobody sees",
        (1, 4, 3, 2),
        (1, 2, 6),
        5,
        choices=Choices(masks=("causal & window(2)",), align=LATE),
    ),
    Case("padding", (2, 1, 3, 4), (2, 1, 5), 6, choices=Choices(masks=("padding(3, 5)",))),
    Case(
        "a row that sees nothing", (1, 2, 4, 3), (1, 2, 4), 5, choices=Choices(masks=("~causal",))
    ),
    Case("softcap", (1, 2, 3, 5), (1, 2, 4), 6, choices=Choices(softcap=0.5)),
    Case("no scale", (1, 2, 3, 5), (1, 2, 4), 6, choices=Choices(scale="none")),
    Case("sinks", (1, 4, 2, 3), (1, 2, 5), 6, added={"sinks": (4,)}),
    Case("bias", (2, 3, 4, 1), (2, 3, 5), 6, added={"bias": (1, 3, 4, 5)}),
    Case("additive mask", (1, 3, 4, 2), (1, 1, 6), 5, added={"additive_mask": (4, 6)}),
    Case("alibi", (1, 2, 3, 5), (1, 2, 4), 6, choices=Choices(positions="alibi", align=LATE)),
    Case("rope, half", (1, 2, 3, 4), (1, 2, 5), 6, choices=Choices(positions="rope", align=LATE)),
    Case(
        "rope, interleaved",
        (1, 2, 3, 6),
        (1, 1, 4),
        5,
        choices=Choices(positions="rope:interleaved", align=LATE),
    ),
    Case(
        "projections",
        x=(2, 3, 5),
        choices=Choices(init="default", heads=4, kv_heads=2, d_k=1, d_v=6, masks=("causal",)),
    ),
    Case(
        "projections, another sequence",
        x=(1, 3, 6),
        context=(1, 4, 5),
        choices=Choices(init="default", heads=2, d_k=7),
    ),
    Case(
        "NaN where nobody looks",
        (1, 2, 4, 3),
        (1, 2, 4),
        5,
        broken=(("k", (0, 0, 2, 1)), ("v", (0, 1, 3, 4)), ("q", (0, 0, 3, 2))),
        choices=Choices(masks=("causal & window(2) & ~(global(2) | global(3))",)),
    ),
)
LAYER = Case("a layer", x=(1, 32, 128), choices=Choices(init="xavier", heads=2))


def default_cases(seed: int) -> Iterator[tuple[str, AttentionInputs]]:
    """Each case with standard normal numbers drawn from the seed."""
    for stream, case in enumerate(CASES):
        yield case.name, question(case, seed, stream)


def layer_for_norms(seed: int) -> tuple[str, AttentionInputs]:
    """A layer of 32 tokens, d_model 128 and 2 heads of 64, as it starts: unit variance throughout.

    Its norms are worth a look; those of the small cases are not.
    """
    return LAYER.name, question(LAYER, seed, len(CASES))


def question(case: Case, seed: int, stream: int) -> AttentionInputs:
    """The case's question, read as a file that holds it would be."""
    drawn = case.choices.init is not None
    choices = replace(case.choices, seed=seed) if drawn else case.choices
    second = None
    if case.context:
        second = _dump({"x": normal(seed, 64 * stream + 63, case.context)}, "the other sequence")
    arrays = dict(_arrays(case, seed, stream))
    for name, where in case.broken:
        arrays[name][where] = np.nan
    return understand(_dump(arrays, case.name), choices, context=second, load=load_array).inputs


def _arrays(case: Case, seed: int, stream: int) -> Iterator[tuple[str, Array]]:
    shapes = dict(case.added)
    if case.x:
        shapes["x"] = case.x
    else:
        shapes |= {"q": case.q, "k": (*case.kv, case.q[-1]), "v": (*case.kv, case.d_v)}
    for i, (name, shape) in enumerate(shapes.items()):
        numbers = normal(seed, 64 * stream + i, shape)
        yield name, np.where(numbers > 1, -INF, numbers) if name == "additive_mask" else numbers


def _dump(arrays: Mapping[str, Array], source: str) -> Dump:
    return Dump(
        source=source,
        format="generated",
        arrays=arrays,
        dtypes=dict.fromkeys(arrays, "float64"),
        sha256="",
    )
