"""Whether a captured forward gave what the untouched model gives."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attn_cli.core.compare import RANK, Verdict
from attn_cli.core.model_calls import OutputCheck

ROUNDINGS = 64  # of the output's precision, relative to its largest number


def check_outputs(seen: Mapping[str, Tensor], alone: Mapping[str, Tensor]) -> OutputCheck:
    """Held element by element; NaN and ±inf are equal to themselves alone.

    `identical` is bit-equal. `rounding` allows 64 units in the last place of an output's largest
    number: nothing of the model is replaced, so that a difference can only come from kernels that
    add in another order each time they run.
    """
    if {name: t.shape for name, t in seen.items()} != {name: t.shape for name, t in alone.items()}:
        return _check("different", float("inf"), 0.0, "")
    worst = _check("identical", 0.0, 0.0, "")
    for name, tensor in seen.items():
        held = _one(name, tensor.detach(), alone[name].detach())
        if (RANK.index(held.verdict), held.max_abs) > (RANK.index(worst.verdict), worst.max_abs):
            worst = held
    return worst


def _one(name: str, seen: Tensor, alone: Tensor) -> OutputCheck:
    same = (seen == alone) | (seen.isnan() & alone.isnan())
    if bool(same.all()):
        return _check("identical", 0.0, 0.0, name)
    a, b = seen.cpu().double(), alone.cpu().double()
    finite = a.isfinite() & b.isfinite()
    gap = torch.where(same.cpu(), 0.0, torch.where(finite, (a - b).abs(), torch.inf))
    largest = float(torch.where(b.isfinite(), b, 0.0).abs().amax())
    eps = torch.finfo(alone.dtype).eps if alone.dtype.is_floating_point else 0.0
    limit = ROUNDINGS * eps * largest
    furthest = float(gap.amax())
    where = tuple(int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))
    return _check("rounding" if furthest <= limit else "different", furthest, limit, name, where)


def _check(
    verdict: Verdict, max_abs: float, limit: float, output: str, where: tuple[int, ...] = ()
) -> OutputCheck:
    return OutputCheck(verdict=verdict, max_abs=max_abs, limit=limit, output=output, where=where)
