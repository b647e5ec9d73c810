"""GivenMasks: the masks of a forward as attention is given them, each looked at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_cli.core.model_calls import MaskFacts
from attn_cli.models.hf.call import FILL


@dataclass(frozen=True, slots=True, eq=False)
class GivenMask:
    """A mask with four axes, and the bias that it brings to the keys that it does not hide.

    Some families (Falcon) add ALiBi into the mask: then `mask` has what hides, and 0 elsewhere, and
    `bias` has the rest; it is None where nothing is added to a visible key.
    """

    mask: Tensor
    bias: Tensor | None
    facts: MaskFacts


@dataclass(slots=True)
class GivenMasks:
    """Masks by the tensor that they came as; layers share them."""

    seen: dict[int, tuple[Tensor, GivenMask]] = field(default_factory=dict)

    def of(self, mask: Tensor) -> GivenMask:
        """The mask parted, with its facts."""
        if id(mask) not in self.seen:
            self.seen[id(mask)] = (mask, _given(mask))  # held, so that no other takes its id
        return self.seen[id(mask)][1]


def _given(mask: Tensor) -> GivenMask:
    boolean = mask.dtype == torch.bool
    hides = ~mask if boolean else mask <= FILL
    facts = MaskFacts(
        kind="bool" if boolean else "additive",
        shape=tuple(mask.shape),
        dtype=str(mask.dtype).removeprefix("torch."),
        fill=None if boolean else float(mask.min()),
        hidden=float(hides.float().mean()),
    )
    four = mask[(None,) * (4 - mask.ndim)]
    if boolean:
        return GivenMask(four, None, facts)
    hides = hides[(None,) * (4 - mask.ndim)]
    bias = four.masked_fill(hides, 0)
    if not bool(bias.any()):
        return GivenMask(four, None, facts)
    return GivenMask(four.masked_fill(~hides, 0), bias, facts)
