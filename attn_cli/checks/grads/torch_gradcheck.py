"""gradcheck: what torch.autograd.gradcheck says of one leaf, in one line."""

from __future__ import annotations

from torch import Tensor
from torch.autograd import gradcheck
from torch.autograd.gradcheck import GradcheckError

from attn_cli.checks.grads.torch_numeric import Function


def gradcheck_report(
    function: Function, leaf: Tensor, *, step: float, allowed: float, fast: bool
) -> str | None:
    """None where it passes; else the first line of what it raised.

    It also finds what no comparison of derivatives does: a backward that gives other numbers the
    second time, that has another dtype, that does not take an undefined gradient. With `fast` it
    looks along one random direction.
    """
    subject = leaf.detach().clone().requires_grad_()
    try:
        gradcheck(
            function,
            (subject,),
            eps=step,
            atol=allowed,
            rtol=0.0,
            nondet_tol=allowed,
            fast_mode=fast,
            raise_exception=True,
        )
    except (GradcheckError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[0].rstrip(",:") if lines else type(error).__name__
    return None
