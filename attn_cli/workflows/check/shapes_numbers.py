"""Shapes from numbers: options in, the trace of one layer and everything that does not fit out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attn_cli.core.geometry import Geometry, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.core.results_shapes import LayerShapes, ShapesResult, Sizes
from attn_cli.errors import InputError
from attn_cli.masks.expression import MaskExpression
from attn_cli.positions import POSITIONS
from attn_cli.positions.declaration import Scheme
from attn_cli.recognize.settings import as_factor, option
from attn_cli.workflows.check.shapes_fit import divisors, dtype_problem, near, widths
from attn_cli.workflows.check.shapes_layers import Shown, layer_shapes
from attn_cli.workflows.check.shapes_options import ShapesOptions, check_choices
from attn_cli.workflows.check.shapes_pairs import (
    Grid,
    alignment_problem,
    expression_of,
    mask_problems,
)

BATCH, LENGTH, DTYPE = 1, 128, "float32"  # where nothing else is said
LARGEST = 10**12  # of any size: what is larger is a slip
MASKING = frozenset({"mask", "alignment"})  # problems of a mask, which changes no shape


@dataclass(frozen=True, slots=True)
class Numbers:
    """The options as sizes, with what they are where nothing is said."""

    asked: ShapesOptions

    @property
    def d_model(self) -> int | None:
        return self.asked.d_model

    @property
    def queries(self) -> int:
        return self.asked.seq or LENGTH

    @property
    def keys(self) -> int:
        return self.asked.key_seq or self.queries

    @property
    def heads(self) -> int:
        return self.asked.choices.heads or 1

    @property
    def kv_heads(self) -> int:
        return self.asked.choices.kv_heads or self.heads

    @property
    def d_k(self) -> int | None:
        """The width of a head; None where d_model does not split into the heads."""
        said, width = self.asked.choices.d_k, self.asked.d_model
        if said is not None or width is None:
            return said
        return width // self.heads if width % self.heads == 0 else None

    @property
    def dtype(self) -> str:
        return self.asked.dtype or DTYPE

    @property
    def positions(self) -> str:
        return self.asked.choices.positions or "none"

    @property
    def scheme(self) -> Scheme:
        return POSITIONS[self.positions.partition(":")[0]]

    @property
    def grid(self) -> Grid:
        return Grid(
            batch=self.asked.batch or BATCH,
            heads=self.heads,
            queries=self.queries,
            keys=self.keys,
            align=self.asked.choices.align,
        )


def of_numbers(asked: ShapesOptions) -> ShapesResult:
    """The trace of a layer of these sizes, with all that does not fit in them.

    With d_model there are projections, W_o too; without it q, k and v are given. InputError for a
    size that is none, an unknown position scheme and a mask that cannot be read.
    """
    asked.refuse_idle("sizes alone", "")
    _check(asked)
    numbers = Numbers(asked)
    expression = expression_of(asked.choices.masks)
    problems = list(_problems(numbers, expression))
    layer = _geometry(numbers)
    if layer is not None:
        problems += widths(layer, numbers.dtype)
    fatal = any(each.severity == "error" and each.code not in MASKING for each in problems)
    if layer is not None and not fatal:
        group = layer_shapes(layer, _shown(numbers, expression), [0])
    else:
        group = LayerShapes(layers=(0,), sizes=_sizes(numbers, expression), geometry=layer)
    return ShapesResult(
        kind="sizes",
        source="sizes",
        says=(),
        layers=(LayerGeometry(path="", index=0, kind="softmax", says="", geometry=layer),),
        groups=(group,),
        problems=tuple(problems),
    )


def _sizes(numbers: Numbers, expression: MaskExpression | None) -> Sizes:
    grid = numbers.grid
    return Sizes(
        batch=grid.batch,
        queries=grid.queries,
        keys=grid.keys,
        dtype=numbers.dtype,
        mask=None if expression is None else str(expression),
        align=grid.align,
    )


def _check(asked: ShapesOptions) -> None:
    choices = asked.choices
    sizes = {name: getattr(asked, name) for name in ("batch", "seq", "key_seq", "d_model")}
    sizes |= {name: getattr(choices, name) for name in ("heads", "kv_heads", "d_k", "d_v")}
    for name, value in sizes.items():
        check_size(name, value)
    if asked.d_model is None and choices.d_k is None:
        raise InputError(
            "no sizes were given: expected --d-model for a layer, or --d-k for q, k and v",
            hint="or the path of a file, or of a checkpoint's folder",
        )
    check_choices(choices)


def check_size(name: str, value: int | None) -> None:
    """InputError for what is no size."""
    if value is not None and not 1 <= value <= LARGEST:
        expected = f"expected a whole number from 1 to {LARGEST:,}"
        raise InputError(f"{option(name)} is {value}: {expected}")


def _geometry(numbers: Numbers) -> Geometry | None:
    """The layer; None where its heads have no width."""
    choices, d_k = numbers.asked.choices, numbers.d_k
    if d_k is None:
        return None
    return Geometry(
        heads=numbers.heads,
        kv_heads=numbers.kv_heads,
        d_k=d_k,
        d_v=choices.d_v or d_k,
        d_model=numbers.d_model,
        d_out=numbers.d_model,
        projected=numbers.d_model is not None,
        scale=as_factor(choices.scale),
        softcap=choices.softcap,
        positions=None if numbers.scheme.acts == "nothing" else numbers.positions,
    )


def _shown(numbers: Numbers, expression: MaskExpression | None) -> Shown:
    """As a cache is read where the last query is the last key, as another sequence elsewhere."""
    grid = numbers.grid
    grown = grid.align == "lower-right" and grid.keys > grid.queries
    return Shown(
        grid=grid,
        dtype=numbers.dtype,
        expression=expression,
        cached=grid.keys - grid.queries if grown and numbers.d_model is not None else 0,
        encoded=numbers.scheme.acts == "added",
    )


def _problems(numbers: Numbers, expression: MaskExpression | None) -> Iterator[Problem]:
    yield from _heads(numbers)
    yield from _positions(numbers)
    yield from mask_problems(expression, numbers.grid)
    compares = numbers.positions if numbers.scheme.acts in ("rotates", "bias") else None
    apart = alignment_problem(expression, numbers.grid, compares)
    if apart is not None:
        yield apart
    unknown = dtype_problem(numbers.dtype)
    if unknown is not None:
        yield unknown


def _heads(numbers: Numbers) -> Iterator[Problem]:
    heads, kv_heads, d_model = numbers.heads, numbers.kv_heads, numbers.d_model
    if numbers.d_k is None and d_model is not None:
        yield Problem(
            "heads-do-not-divide",
            f"d_model {d_model} does not split into {heads} heads of equal width: "
            f"{near(divisors(d_model), heads)} heads do, or --d-k gives a head a width of its own",
            stage="q",
            field="--heads",
        )
    if heads % kv_heads:
        yield Problem(
            "kv-heads-do-not-divide",
            f"{heads} query heads cannot share {kv_heads} key/value heads evenly: --kv-heads "
            f"{near(divisors(heads), kv_heads)} works",
            stage="k",
            field="--kv-heads",
        )


def _positions(numbers: Numbers) -> Iterator[Problem]:
    acts = numbers.scheme.acts
    if acts == "added" and numbers.d_model is None:
        yield Problem(
            "positions-need-vectors",
            f"{numbers.positions} positions are added to token vectors, and there are only q, k "
            "and v: give --d-model, or rope, alibi or relative",
            stage="x_positions",
            field="--positions",
        )
    if acts == "rotates" and (numbers.d_k or 0) % 2:
        yield Problem(
            "odd-width",
            f"RoPE turns pairs of features, and d_k is {numbers.d_k}: give an even --d-k",
            stage="q_rotated",
            field="--positions",
        )
