"""What was asked for: the file's own settings, checked, with the caller's choices over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

import numpy as np

from attn_cli.core.draws import LARGEST_SEED
from attn_cli.core.findings import Finding, note
from attn_cli.core.registry import unknown_name
from attn_cli.core.settings import (
    Align,
    Choices,
    Init,
    Layout,
    MaskMeans,
    Scale,
    WeightsLayout,
)
from attn_cli.errors import InputError
from attn_cli.recognize.origin import MEMORY, speaking_of

_LONGEST = 80  # characters of a value that a message shows
MASK_AXES = ("query,key", "batch,key", "batch,query,key", "head,query,key")


@dataclass(frozen=True, slots=True)
class Asked:
    """The choices in force; `from_file` names those that the file brought."""

    choices: Choices
    from_file: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    def origin(self, name: str) -> str:
        """How a message names a setting: `--heads`, or "the file's setting heads"."""
        return f"the file's setting {name}" if name in self.from_file else option(name)

    def told(self, name: str) -> bool:
        """Whether the caller chose it. An option that has nothing to act on is a mistake; a setting
        of the file may stand idle."""
        return getattr(self.choices, name) is not None and name not in self.from_file


def resolve(settings: Mapping[str, Any], choices: Choices, source: str = MEMORY) -> Asked:
    """The choices, with the settings of the file `source` where the caller said nothing.

    Raises InputError, naming the setting and its value, for one that is unknown or out of range.
    """
    for name, value in _said(choices).items():
        _check(name, value, option(name))
    brought = {name: value for name, value in settings.items() if value is not None}
    with speaking_of(source):
        for name in settings:
            if name not in _CHECKS:
                raise unknown_name("setting", str(name), NAMES)
        for name, value in brought.items():
            _check(name, value, f"the file's setting {name}")
    chosen = _said(choices)
    taken = {name: value for name, value in brought.items() if name not in chosen}
    return Asked(_apply(choices, taken), tuple(taken), _said_note(taken))


def option(name: str) -> str:
    """The command-line option of a setting.

    >>> option("kv_heads")
    '--kv-heads'
    """
    return "--" + name.replace("_", "-")


def as_factor(scale: Scale | None) -> float | None:
    """The factor on the scores; None is the default, 1/√d_k.

    >>> as_factor("none"), as_factor(2)
    (1.0, 2.0)
    """
    if scale is None:
        return None
    return 1.0 if scale == "none" else float(scale)


def _said(choices: Choices) -> dict[str, Any]:
    said = {f.name: getattr(choices, f.name) for f in fields(choices) if f.name != "masks"}
    said["mask"] = choices.masks or None
    return {name: value for name, value in said.items() if value is not None}


def _apply(choices: Choices, taken: Mapping[str, Any]) -> Choices:
    changes = {name: value for name, value in taken.items() if name != "mask"}
    if "mask" in taken:
        mask = taken["mask"]
        changes["masks"] = (mask,) if isinstance(mask, str) else tuple(mask)
    return replace(choices, **changes)


def _said_note(taken: Mapping[str, Any]) -> tuple[Finding, ...]:
    if not taken:
        return ()
    words = ", ".join(f"{name} {_shown(value)}" for name, value in taken.items())
    return (note("settings-from-file", f"the file sets {words}; an option overrides it"),)


def _shown(value: Any) -> str:
    return " & ".join(value) if isinstance(value, list | tuple) else str(value)


def _check(name: str, value: Any, origin: str) -> None:
    fits, expected = _CHECKS[name]
    if not fits(value):
        shown = repr(value)
        came = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
        raise InputError(f"{origin} is {came}: expected {expected}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def _is_number(value: Any) -> bool:
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_scale(value: Any) -> bool:
    return value == "none" if isinstance(value, str) else _is_number(value)


def _is_seed(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(0 <= value <= LARGEST_SEED)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and bool(value > 0)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mask(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(part, str) for part in value)
    return isinstance(value, str)


def _one_of(*words: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: isinstance(value, str) and value in words, " or ".join(words)


_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "heads": (_is_count, "a whole number from 1"),
    "kv_heads": (_is_count, "a whole number from 1"),
    "mask": (_is_mask, "a mask expression such as 'causal'"),
    "scale": (_is_scale, "a finite number, or none for no scale"),
    "softcap": (_is_positive, "a positive number"),
    "align": _one_of(*get_args(Align)),
    "layout": _one_of(*get_args(Layout)),
    "mask_means": _one_of(*get_args(MaskMeans)),
    "mask_axes": _one_of(*MASK_AXES),
    "weights_layout": _one_of(*get_args(WeightsLayout)),
    "init": _one_of(*get_args(Init)),
    "seed": (_is_seed, f"a whole number from 0 to {LARGEST_SEED}"),
    "d_k": (_is_count, "a whole number from 1"),
    "d_v": (_is_count, "a whole number from 1"),
    "positions": (_is_text, "a position scheme such as rope"),
    "rope_base": (_is_positive, "a positive number"),
    "relative_bidirectional": (_is_bool, "true or false"),
    "max_distance": (_is_count, "a whole number from 1"),
}
NAMES = tuple(_CHECKS)
