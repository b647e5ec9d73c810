"""Tiles tell the truth and parts equal the whole, for every mask and what is joined of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.core.masks import Mask, MaskContext, TileKind, evaluate
from attn_cli.errors import InputError
from attn_cli.masks import MASKS
from attn_cli.masks.base import And, Not, Or
from attn_cli.masks.declaration import Parameter

HEADS = 2

ARRAYS = st.integers(0, 2**32 - 1)


@st.composite
def mask_of(draw: st.DrawFn, name: str, context: MaskContext) -> tuple[Mask, MaskContext]:
    """A mask with arguments that its declaration allows, and the context that they fit."""
    kind = MASKS[name]
    values = tuple(draw(arguments(parameter)) for parameter in kind.parameters)
    numbers = next((value for value in values if isinstance(value, tuple)), ())
    # Where the numbers speak of the sizes of the run, the run is made to fit them.
    sum_of_keys = replace(context, keys=max(1, sum(numbers)), batch=max(1, len(numbers)))
    for fitting in (context, sum_of_keys):
        try:
            return kind.build(values, fitting), fitting
        except InputError:
            continue
    raise AssertionError(f"{kind.write(values)} fits neither {context} nor {sum_of_keys}")


def arguments(parameter: Parameter) -> st.SearchStrategy[bool | int | str | tuple[int, ...]]:
    number = st.integers(parameter.least, parameter.least + 6)
    match parameter.form:
        case "word":
            return st.booleans()
        case "numbers":
            return st.lists(number, min_size=max(1, parameter.fewest), max_size=4).map(tuple)
        case "text":
            return st.just("m.npy")
        case "number":
            return number


@st.composite
def contexts(draw: st.DrawFn) -> MaskContext:
    seed = draw(ARRAYS)
    context = MaskContext(
        batch=2,
        heads=HEADS,
        queries=draw(st.integers(1, 12)),
        keys=draw(st.integers(7, 12)),
        q_offset=draw(st.integers(-4, 6)),
    )
    shape = (context.batch, HEADS, context.queries, context.keys)
    array = np.random.default_rng(seed).integers(0, 2, shape) > 0
    return replace(context, load=lambda path: array)


@st.composite
def stretch(draw: st.DrawFn, start: int, stop: int) -> range:
    first = draw(st.integers(start, stop - 1))
    return range(first, draw(st.integers(first + 1, stop)))


def check_tile(mask: Mask, context: MaskContext, data: st.DataObject) -> None:
    """What a tile says is true, and evaluating the tile gives that part of the whole."""
    first, last = context.q_offset, context.q_offset + context.queries
    rows, columns = data.draw(stretch(first, last)), data.draw(stretch(0, context.keys))
    size = {"batch": context.batch, "heads": HEADS}
    whole = evaluate(mask, **size, queries=range(first, last), keys=range(context.keys))
    part = evaluate(mask, **size, queries=rows, keys=columns)
    inside = slice(rows.start - first, rows.stop - first), slice(columns.start, columns.stop)
    np.testing.assert_array_equal(part, whole[:, :, *inside])
    for item in range(context.batch):
        kind = mask.tile(item, 1, rows, columns)
        assert kind is not TileKind.FULL or part[item, 1].all()
        assert kind is not TileKind.EMPTY or not part[item, 1].any()


@pytest.mark.parametrize("name", list(MASKS))
@settings(max_examples=40)
@given(data=st.data())
def test_a_tile_tells_the_truth(name: str, data: st.DataObject) -> None:
    mask, context = data.draw(mask_of(name, data.draw(contexts())))
    check_tile(mask, context, data)


@settings(max_examples=40)
@given(data=st.data())
def test_a_tile_of_an_expression_tells_the_truth(data: st.DataObject) -> None:
    context = data.draw(contexts())
    plain = st.sampled_from([name for name in MASKS if name not in ("documents", "padding")])
    leaf = plain.flatmap(lambda name: mask_of(name, context)).map(lambda pair: pair[0])
    trees = st.recursive(leaf, _joined, max_leaves=5)
    check_tile(data.draw(trees), context, data)


def _joined(part: st.SearchStrategy[Mask]) -> st.SearchStrategy[Mask]:
    pairs = st.tuples(part, part)
    return pairs.map(And) | pairs.map(Or) | part.map(Not)


def test_the_check_finds_a_tile_that_lies() -> None:
    class Liar:
        """Causal, and says of every tile that it is full."""

        def __call__(self, b, h, q_pos, k_pos):  # type: ignore[no-untyped-def]
            return k_pos <= q_pos

        def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
            return TileKind.FULL

    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        check_tile(Liar(), MaskContext(batch=1, heads=HEADS, queries=4, keys=4), data)

    with pytest.raises(AssertionError):
        check()
