"""Choices (what the user asked for) and Settings (what a run uses)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Align = Literal["lower-right", "upper-left"]
Layout = Literal["bhld", "blhd"]
MaskMeans = Literal["keep", "hidden", "additive"]
Scale = float | Literal["none"]


@dataclass(frozen=True, slots=True)
class Choices:
    """What was asked for on the command line or by a caller; None or empty = not said."""

    heads: int | None = None
    kv_heads: int | None = None
    scale: Scale | None = None
    softcap: float | None = None
    masks: tuple[str, ...] = ()  # mask expressions; several mean "and"
    align: Align | None = None
    layout: Layout | None = None
    mask_means: MaskMeans | None = None
    mask_axes: str | None = None  # "query,key" or "batch,key" for a 2-D mask where both fit


@dataclass(frozen=True, slots=True)
class Settings:
    """What the run uses, options and the file's own settings resolved.

    `scale` is the factor itself. `mask` is the normalised expression, or None. `from_file` names
    the settings that the file brought and no option overrode.
    """

    heads: int
    kv_heads: int
    scale: float
    softcap: float | None
    mask: str | None
    align: Align | None
    layout: Layout
    from_file: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["from_file"] = list(self.from_file)
        return fields
