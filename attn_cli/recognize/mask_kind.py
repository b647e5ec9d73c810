"""Mask kind: does an array say which keys to keep, which to hide, or what to add to the scores?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.settings import MaskMeans
from attn_cli.errors import InputError, MisfitError

Array = NDArray[Any]

# Roles whose name leaves the meaning of True open; --mask-means settles it.
OPEN = ("mask", "attention_mask", "padding_mask")
_DOES: Mapping[MaskMeans, str] = {"keep": "may attend", "hidden": "hidden"}


@dataclass(frozen=True, slots=True)
class MaskReading:
    """What an array means, and the words that say so."""

    means: MaskMeans
    words: str


def kind_of(array: Array, role: str, label: str, means: MaskMeans | None) -> MaskReading:
    """What a mask array means: by what was told, else by its name, else by its values.

    bool and 0/1 are keep unless told; negative numbers, −inf and NaN are additive. Raises
    InputError where more than one reading makes sense, or the values contradict what was told.
    """
    _check_values(array, label)
    told = means if role in OPEN else None
    if role == "additive_mask" or told == "additive":
        return _additive(array, label)
    if not _is_binary(array):
        return _by_values(array, label, told)
    true = "True" if array.dtype.kind == "b" else "1"
    if told is not None:
        return MaskReading(told, f"{true} = {_DOES[told]}, as --mask-means says")
    if role == "key_padding_mask":
        return MaskReading("hidden", f"{true} = hidden, as in torch.nn.MultiheadAttention")
    if role == "padding_mask":
        raise _unsettled(label, true)
    _check_not_all_zero(array, label)
    return MaskReading("keep", f"{true} = may attend")


def as_keep(array: Array, kind: MaskReading) -> NDArray[np.bool_]:
    """The array as True = may attend; for kinds that are not additive."""
    return np.equal(array, 0) if kind.means == "hidden" else np.not_equal(array, 0)


def _check_values(array: Array, label: str) -> None:
    if array.dtype.kind not in "biuf":
        raise InputError(f"{label} has dtype {array.dtype}: expected bool, 0 and 1, or numbers")
    if 0 in array.shape:
        raise MisfitError(f"{label} has shape {array.shape}: an axis of size 0 masks nothing")


def _is_binary(array: Array) -> bool:
    return array.dtype.kind == "b" or bool(((array == 0) | (array == 1)).all())


def _odd(array: Array) -> str:
    return f"{array[(array != 0) & (array != 1)].flat[0]:g}"


def _by_values(array: Array, label: str, told: MaskMeans | None) -> MaskReading:
    if told is not None:
        raise InputError(
            f"{label} holds {_odd(array)}: a mask that means {told} is bool, or 0 and 1",
            hint="pass --mask-means additive to add it to the scores",
        )
    if (array < 0).any() or np.isnan(array).any():
        return _additive(array, label)
    raise InputError(
        f"{label} holds {_odd(array)}, so it is not 0 and 1, and nothing in it is negative, so it "
        "would hide nothing when added",
        hint="pass --mask-means additive to add it to the scores, or give a bool mask",
    )


def _unsettled(label: str, true: str) -> InputError:
    return InputError(
        f"{label} does not say what {true} means: some programs hide these keys, some keep them",
        hint="pass --mask-means keep or --mask-means hidden",
    )


def _check_not_all_zero(array: Array, label: str) -> None:
    """Zeros of a float dtype hide everything as 0/1 and nothing when added: never guessed."""
    if array.dtype.kind == "f" and not array.any():
        raise InputError(
            f"{label} is all 0: added to the scores it hides nothing, as 0 and 1 it hides "
            "everything",
            hint="pass --mask-means additive, or --mask-means keep",
        )


def _additive(array: Array, label: str) -> MaskReading:
    if array.dtype.kind == "b":
        raise InputError(
            f"{label} is bool: an additive mask holds numbers, 0 where a query may attend",
            hint="pass --mask-means keep or --mask-means hidden",
        )
    return MaskReading("additive", "added to the scores")
