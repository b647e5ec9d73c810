"""Blank: an array that has a shape and a dtype and, in place of its numbers, one for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from attn_cli.errors import InputError

Array = NDArray[Any]


class Blank(np.ndarray[Any, Any]):
    """Stands for an array whose numbers are not read: it takes no memory, whatever its shape.

    Views, arithmetic, products and reductions give arrays of the right shape and dtype, blank
    again, in no time. What their numbers say is nothing: they are those of one element.
    """

    one: Array  # the number that stands for all, without axes

    def __array_finalize__(self, source: Any) -> None:
        self.one = getattr(source, "one", np.zeros((), self.dtype))

    def astype(self, dtype: Any, *args: Any, **how: Any) -> Any:
        return _filled(self.shape, self.one.astype(dtype))

    def copy(self, order: Any = "C") -> Any:
        return self

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **how: Any) -> Any:
        if method == "__call__" and how.get("out") is None:
            return _called(ufunc, inputs, how)
        if method == "reduce":
            return _reduced(ufunc, inputs[0], how)
        return NotImplemented

    def __array_function__(
        self, func: Any, types: Any, args: Iterable[Any], how: Mapping[str, Any]
    ) -> Any:
        args = tuple(args)
        if func is np.where and len(args) == 3:
            shape = np.broadcast_shapes(*map(np.shape, args))
            return _filled(shape, np.result_type(*map(_one, args[1:])).type(0))
        return super().__array_function__(func, types, args, how)


def blank(shape: Sequence[int], dtype: Any = np.float64, value: float = 0) -> Blank:
    """An array of this shape, each of whose numbers is taken to be `value`.

    InputError for a shape that no array can have.
    """
    return _filled(tuple(shape), np.asarray(value).astype(dtype))


def _filled(shape: Sequence[int], one: Any) -> Blank:
    one = np.asarray(one).reshape(())
    try:
        array = np.broadcast_to(one, tuple(shape)).view(Blank)
    except ValueError as error:  # numpy counts bytes in 64 bits, though none are taken
        sizes = " × ".join(f"{size:,}" for size in shape)
        raise InputError(f"an array of {sizes} is larger than any that there can be") from error
    array.one = one
    return array


def _one(value: Any) -> Any:
    """The one number of a blank array; of another array, whichever: only its dtype counts."""
    if isinstance(value, Blank):
        return value.one
    if isinstance(value, np.ndarray):
        return value.flat[0] if value.size else np.zeros((), value.dtype)[()]
    return value


def _called(ufunc: np.ufunc, inputs: Sequence[Any], how: dict[str, Any]) -> Any:
    """An elementwise operation, or a matrix product."""
    how = {name: value for name, value in how.items() if name == "dtype"}
    shapes = [np.shape(value) for value in inputs]
    ones = [_one(value) for value in inputs]
    if ufunc is np.matmul:
        (*first, rows, inner), (*second, depth, columns) = shapes
        if inner != depth:
            raise ValueError(f"matmul: {shapes[0]} and {shapes[1]} do not fit together")
        kind = np.result_type(*ones)
        leading = np.broadcast_shapes(tuple(first), tuple(second))
        return _filled((*leading, rows, columns), kind.type(0))
    with np.errstate(all="ignore"):
        made = ufunc(*ones, **how)
    shape = np.broadcast_shapes(*shapes)
    if isinstance(made, tuple):
        return tuple(_filled(shape, each) for each in made)
    return _filled(shape, made)


def _reduced(ufunc: np.ufunc, array: Any, how: dict[str, Any]) -> Any:
    """A reduction: of as many axes as were asked for, one number left of each."""
    axis: SupportsIndex | tuple[int, ...] | None = how.get("axis", 0)
    axes = range(array.ndim) if axis is None else np.atleast_1d(np.asarray(axis)) % array.ndim
    gone = {int(each) for each in axes}
    small = np.full((1,) * array.ndim, array.one)
    made = ufunc.reduce(small, axis=None)
    sizes = enumerate(array.shape)
    if how.get("keepdims"):
        return _filled([1 if place in gone else size for place, size in sizes], made)
    left = [size for place, size in sizes if place not in gone]
    return _filled(left, made) if left else made
