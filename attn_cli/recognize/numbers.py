"""Numbers: arrays as the floats that attention takes, and what is said of their precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError, MisfitError

Array = NDArray[Any]

# From the narrowest: a computation is as precise as the widest of its inputs.
_NARROW = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16")
_WIDTHS = (*_NARROW, "float32", "float64")
_TEXT = ("json", "csv")  # numbers that are written out


def real(array: Array, label: str) -> Array:
    """The array as floats; integers become float64.

    Raises InputError for other dtypes and where an axis has size 0.
    """
    if array.dtype.kind == "b":
        raise InputError(
            f"{label} has dtype bool where numbers are expected: it looks like a mask",
            hint="give it as `mask` beside x, or beside q, k and v",
        )
    if array.dtype.kind not in "fiu":
        raise InputError(f"{label} has dtype {array.dtype}: expected real numbers")
    if 0 in array.shape:
        raise MisfitError(
            f"{label} has shape {array.shape}: an axis of size 0 leaves nothing to attend to",
            hint="give at least one token and one feature",
        )
    # Wider than float64 there is no arithmetic that is the same on every machine.
    keeps = array.dtype.kind == "f" and array.dtype.itemsize <= 8
    return array if keeps else array.astype(np.float64)


def precision(dtypes: Iterable[str]) -> str:
    """The widest of the dtypes, as the file names them; numbers written as text are float64.

    >>> precision(["float16", "float32"]), precision(["json"]), precision(["int64", "float32"])
    ('float32', 'float64', 'int64')
    """
    named = ["float64" if dtype in _TEXT else dtype for dtype in dtypes]
    return max(named, key=lambda dtype: _WIDTHS.index(dtype) if dtype in _WIDTHS else len(_WIDTHS))


def said_of_conversions(dtypes: Mapping[str, str]) -> tuple[Finding, ...]:
    """Notes on arrays that are not computed in the precision they are stored in.

    `dtypes` maps the arrays, as a message names them, to their precision in the file.
    """
    findings = []
    for dtype in dict.fromkeys(dtypes.values()):
        labels = [label for label, its in dtypes.items() if its == dtype]
        said = _conversion(dtype)
        if said is not None:
            code, what = said
            are = "is" if len(labels) == 1 else "are"
            findings.append(note(code, f"{', '.join(labels)} {are} {dtype}, {what}"))
    return tuple(findings)


def said_of_mixture(dtypes: Mapping[str, str]) -> tuple[Finding, ...]:
    """A note where the precisions differ: which of them counts as the input's."""
    if len({precision([dtype]) for dtype in dtypes.values()}) < 2:
        return ()
    mixture = ", ".join(_alike(dtypes, dtype) for dtype in dict.fromkeys(dtypes.values()))
    message = f"the precisions differ ({mixture}); {precision(dtypes.values())} is the input's"
    return (note("mixed-precision", message),)


def _alike(dtypes: Mapping[str, str], dtype: str) -> str:
    """The arrays of one precision: `x float16`, `w_q and 3 more float32`."""
    first, *more = (label for label, its in dtypes.items() if its == dtype)
    return f"{first} and {len(more)} more {dtype}" if more else f"{first} {dtype}"


def _conversion(dtype: str) -> tuple[str, str] | None:
    if dtype in _NARROW or dtype.startswith("float8"):
        return "dtype-widened", "widened exactly"
    if dtype.startswith(("int", "uint")):
        return "integers-converted", "converted to float64"
    if dtype in (*_WIDTHS, *_TEXT):
        return None
    return "dtype-narrowed", "rounded to float64"
