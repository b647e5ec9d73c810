"""GivenMasks: the masks of a forward as attention is given them, each looked at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_cli.core.model_calls import MaskFacts
from attn_cli.models.hf.call import FILL, four_axes
from attn_cli.models.hf.seen_tensors import SeenTensors

GAP = 30.0  # e^−30 is 1e-13, far below what rounding leaves of a weight


@dataclass(frozen=True, slots=True, eq=False)
class GivenMask:
    """A mask with four axes, and the bias that it brings to the keys that it does not hide.

    Some families (Falcon) add ALiBi into the mask: then `mask` has what hides, and 0 elsewhere, and
    `bias` has the rest; it is None where nothing is added to a visible key. What is added and at
    most `below` hides: −1e4, or Swin's −100.
    """

    mask: Tensor
    below: float
    bias: Tensor | None
    facts: MaskFacts


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """What was found out of a mask, and its two parts where it has two: it is not held itself."""

    facts: MaskFacts
    below: float
    hiding: Tensor | None = None
    bias: Tensor | None = None


@dataclass(slots=True)
class GivenMasks:
    """Masks by the tensor that they came as; layers share them."""

    seen: SeenTensors[_Parts] = field(default_factory=SeenTensors)

    def of(self, mask: Tensor) -> GivenMask:
        """The mask parted, with its facts."""
        parts = self.seen.of(mask, _parts)
        hiding = mask if parts.hiding is None else parts.hiding
        four = hiding if hiding.ndim == 4 else four_axes(hiding)  # itself: it is known by identity
        return GivenMask(four, parts.below, parts.bias, parts.facts)


def _parts(mask: Tensor) -> _Parts:
    boolean = mask.dtype == torch.bool
    below = FILL if boolean else _highest_fill(mask)
    hides = ~mask if boolean else mask <= below
    facts = MaskFacts(
        kind="bool" if boolean else "additive",
        shape=tuple(mask.shape),
        dtype=str(mask.dtype).removeprefix("torch."),
        fill=None if boolean else float(mask.min()),
        hidden=float(hides.float().mean()),
    )
    if boolean:
        return _Parts(facts, below)
    bias = mask.masked_fill(hides, 0)
    if not bool(bias.any()):
        return _Parts(facts, below)
    return _Parts(facts, below, mask.masked_fill(~hides, 0), four_axes(bias))


def _highest_fill(mask: Tensor) -> float:
    """What is added and at most this hides: −1e4, or what lies below a gap that no bias has."""
    values = mask[mask > FILL].sort().values
    if values.numel() == 0 or not bool(values.any()):
        return FILL
    gaps = values.diff()
    weak = gaps.numel() > 0 and bool(gaps.max() > GAP)
    return float(values[int(gaps.argmax())]) if weak else FILL
