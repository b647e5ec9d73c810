"""Somebody's mask: which array of a file it is, what kind, and which keys it lets through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.core.names import INPUT_WORDS, meaning
from attn_cli.core.results_mask import MaskFile
from attn_cli.errors import InputError
from attn_cli.recognize.file_masks import MASK_ROLES
from attn_cli.recognize.listing import fit_to_print, some
from attn_cli.recognize.mask_fills import HIDES, Numbers, hidden_by, in_short, numbers_of

Array = NDArray[Any]
Kind = Literal["bool", "0/1", "additive"]

ROLES = (*MASK_ROLES, "bias")
PER_ITEM = ("key_padding_mask", "attention_mask", "padding_mask")  # (batch, key) where 2-D
FLOAT16_LEAST = -65504.0
_AXES = {
    1: ("key",),
    2: ("query", "key"),
    3: ("batch", "query", "key"),
    4: ("batch", "head", "query", "key"),
}


@dataclass(frozen=True, slots=True, eq=False)
class StoredMask:
    """A mask that was read. `visible` (B, H, L, S); `finite` is True where a fill is no −inf.

    An axis that the file lacks has size 1. `weak` is a fill that seems meant to hide and does not.
    `findings` say how it was read and what is odd in it.
    """

    file: MaskFile
    visible: NDArray[np.bool_]
    finite: NDArray[np.bool_] | None
    weak: float | None
    findings: tuple[Finding, ...]


def read_mask(dump: Dump) -> StoredMask:
    """The only array of a file, or the one whose name says that it is a mask."""
    name = _name(dump)
    array, dtype = dump.arrays[name], dump.dtypes[name]
    role = None if dump.unnamed else meaning(name, INPUT_WORDS)
    label = "the array" if dump.unnamed else fit_to_print(name)
    _check(array, label)
    kind = _kind(array)
    hidden = kind != "additive" and role == "key_padding_mask"
    axes = _axes(array.ndim, role)
    numbers = numbers_of(array, dtype) if kind == "additive" else None
    file = MaskFile(
        source=dump.source,
        name=None if dump.unnamed else name,
        dtype="float64" if dtype == "json" else dtype,
        shape=array.shape,
        axes=axes,
        kind=kind,
        polarity="hidden" if hidden else "keep",
        sha256=dump.sha256,
        fills=_written(numbers),
    )
    shape = tuple(dict(zip(axes, array.shape, strict=True)).get(axis, 1) for axis in _AXES[4])
    if numbers is not None:
        visible = ~hidden_by(array, numbers)
        finite = np.isfinite(array).reshape(shape)
    else:
        visible, finite = np.not_equal(array, 0) != hidden, None
    findings = (*dump.findings, *_said(file, label, role), *_odd(array, label, numbers, dtype))
    weak = None if numbers is None else numbers.weak
    return StoredMask(file, visible.reshape(shape), finite, weak, findings)


def _written(numbers: Numbers | None) -> dict[str, str]:
    fills = {} if numbers is None else numbers.fills
    return {f"{value:.17g}": called for value, called in fills.items()}


def _name(dump: Dump) -> str:
    if len(dump.arrays) == 1:
        return next(iter(dump.arrays))
    masks = [name for name in dump.arrays if meaning(name, INPUT_WORDS) in ROLES]
    if len(masks) == 1:
        return masks[0]
    if "mask" in dump.arrays:
        return "mask"
    found = f"it holds {some(masks or list(dump.arrays))}"
    several = "several masks" if masks else "no array that is called a mask"
    raise InputError(f"{several}: {found}", hint="save the one that is meant: np.save(path, mask)")


def _check(array: Array, label: str) -> None:
    if array.dtype.kind not in "biuf":
        raise InputError(f"{label} has dtype {array.dtype}: a mask is bool, 0 and 1, or numbers")
    if not 1 <= array.ndim <= 4 or 0 in array.shape:
        raise InputError(
            f"{label} has shape {array.shape}: a mask has 1 to 4 axes, none of size 0",
            hint="(query, key), (batch, query, key) or (batch, head, query, key)",
        )


def _kind(array: Array) -> Kind:
    if array.dtype.kind == "b":
        return "bool"
    binary = bool(((array == 0) | (array == 1)).all())
    return "0/1" if binary and not _all_zero_floats(array) else "additive"


def _all_zero_floats(array: Array) -> bool:
    return array.dtype.kind == "f" and not array.any()


def _axes(ndim: int, role: str | None) -> tuple[str, ...]:
    if ndim == 2 and role in PER_ITEM:
        return ("batch", "key")
    if ndim == 3 and role == "bias":
        return ("head", "query", "key")
    return _AXES[ndim]


def _said(file: MaskFile, label: str, role: str | None) -> Iterator[Finding]:
    true = "True" if file.kind == "bool" else "1"
    if file.kind == "additive":
        words = "numbers that are added to the scores"
    elif file.polarity == "hidden":
        words = f"{true} = hidden, as its name says"
    else:
        words = f"read with {true} = may attend"
    if role == "padding_mask":
        words += "; under this name some programs mean hidden"
    yield note("mask-kind", f"{label} is {file.dtype} over ({', '.join(file.axes)}): {words}")


def _odd(array: Array, label: str, numbers: Numbers | None, dtype: str) -> Iterator[Finding]:
    """What no mask, or no careful one, holds."""
    if numbers is None:
        return
    if _all_zero_floats(array):
        words = "all 0: added to the scores it hides nothing, read as 0 and 1 it hides everything"
        yield Finding("ambiguous-mask", "warning", f"{label} is {words}")
    elif numbers.positive:
        largest = in_short(float(np.nanmax(array)))
        words = f"holds nothing negative and up to {largest}: added, it hides no key"
        yield Finding("positive-fill", "warning", f"{label} {words}; is a sign missing?")
    if numbers.weak is not None:
        left = f"leaves e^{in_short(numbers.weak)} of its weight"
        words = f"{in_short(numbers.weak)} where a key seems hidden: added to a score it {left}"
        counts = f"attn run counts keys as hidden at {in_short(HIDES)} and below"
        yield Finding("weak-fill", "warning", f"{label} holds {words}; {counts}")
    for value in numbers.doubled:
        usual = [name for other, name in numbers.fills.items() if other > value][-1:]
        words = f"{in_short(value)} stands among its fills, which is {''.join(usual)} twice"
        yield Finding("double-fill", "warning", f"{words}: two masks were added up")
    yield from _finite(numbers, dtype)
    for count, word in ((numbers.nan, "NaN"), (numbers.inf, "+inf")):
        if count:
            where = _first(np.isnan(array) if word == "NaN" else np.isposinf(array))
            words = f"{label} holds {word} in {count:,} of {array.size:,} entries, first at {where}"
            code = "nan-in-mask" if word == "NaN" else "inf-in-mask"
            yield Finding(code, "error", f"{words}: every weight of such a row becomes NaN")


def _finite(numbers: Numbers, dtype: str) -> Iterator[Finding]:
    if not numbers.finite:
        return
    names = " and ".join(numbers.fills[value] for value in numbers.finite[:2])
    beyond = min(numbers.finite) < FLOAT16_LEAST and dtype != "float16"
    limit = f"; float16 has no number below {in_short(FLOAT16_LEAST)}" if beyond else ""
    words = "a finite number: in a row that has nothing else it cancels, and nothing is hidden"
    yield note("finite-fill", f"hidden keys get {names}, {words}{limit}")


def _first(hit: NDArray[np.bool_]) -> str:
    index = [int(i) for i in np.unravel_index(int(hit.argmax()), hit.shape)]
    return str(tuple(index)) if len(index) > 1 else str(index[0])
