"""Choices (what the user asked for) and Settings (what a run uses)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Align = Literal["lower-right", "upper-left"]
Layout = Literal["bhld", "blhd"]
MaskMeans = Literal["keep", "hidden", "additive"]
Scale = float | Literal["none"]
WeightsLayout = Literal["out-in", "in-out"]
Init = Literal["xavier", "normal", "default"]


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
    weights_layout: WeightsLayout | None = None  # of projections: (out, in) or (in, out)
    init: Init | None = None  # draw projections instead of reading them
    seed: int | None = None  # of the draws; 0 where it is not said
    d_k: int | None = None
    d_v: int | None = None
    positions: str | None = None  # a scheme, perhaps with its variant: "rope:interleaved"
    rope_base: float | None = None
    relative_bidirectional: bool | None = None
    max_distance: int | None = None  # of the relative bias


@dataclass(frozen=True, slots=True)
class Settings:
    """What the run uses, options and the file's own settings resolved.

    `scale` is the factor itself. `mask` is the normalised expression, or None. `weights` names the
    file of the projections, `weights_layout` is how they lie there; `init` and `seed` made them
    where no file did. `positions` is the scheme with its variant, or None; the settings after it
    are None where the scheme does not read them. `from_file` names the settings that the file
    brought and no option overrode.
    """

    heads: int
    kv_heads: int
    scale: float
    softcap: float | None
    mask: str | None
    align: Align | None
    layout: Layout
    from_file: tuple[str, ...] = ()
    weights: str | None = None
    weights_layout: WeightsLayout | None = None
    init: Init | None = None
    seed: int | None = None
    positions: str | None = None
    rope_base: float | None = None
    relative_bidirectional: bool | None = None
    max_distance: int | None = None

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["from_file"] = list(self.from_file)
        return fields
