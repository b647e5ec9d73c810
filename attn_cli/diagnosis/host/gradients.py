"""Gradients: what reaches the inputs and the learned tensors of PyTorch code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attn_cli.diagnosis.host.calling import argument
from attn_cli.diagnosis.host.results import pick


def run_gradients(function: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """The gradients of Σ output · `cotangent` for each argument that is a float, by its place or
    name, and for each parameter of a module: null where none arrives.

    `where` picks the output out of what is returned. What is raised, goes on up.
    """
    import torch

    step, lib, dtype = request["step"], request["lib"], request["dtype"]
    args = [argument(value, lib, dtype) for value in step["args"]]
    kwargs = {name: argument(value, lib, dtype) for name, value in step["kwargs"].items()}
    named = {str(place): value for place, value in enumerate(args)} | kwargs
    given = {n: v.requires_grad_() for n, v in named.items() if _is_float(v) and n in request["of"]}
    learned = {}
    if isinstance(function, torch.nn.Module):
        learned = {n: p for n, p in function.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        output = _first(pick(function(*args, **kwargs), request["where"]))
        if not output.requires_grad:
            found: list[Any] = [None] * (len(given) + len(learned))
        else:
            cotangent = argument(request["cotangent"], lib, dtype).to(output.dtype)
            found = list(
                torch.autograd.grad(
                    output, [*given.values(), *learned.values()], cotangent, allow_unused=True
                )
            )
    arrays = [None if g is None else g.double().numpy().astype(np.float64) for g in found]
    return {
        "given": dict(zip(given, arrays, strict=False)),
        "learned": dict(zip(learned, arrays[len(given) :], strict=True)),
    }


def _first(value: Any) -> Any:
    """The output, which stands first where more came back than the plan has a name for."""
    return value[0] if isinstance(value, list | tuple) else value


def _is_float(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()
