"""Calling: arguments in the form the code wants, once or in steps, and what came of it."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.diagnosis.host.results import pick, tree

Array = NDArray[Any]


def run_calls(function: Callable[..., Any], request: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of the calls of a request, one after the other on the same object.

    Each call is {"steps": [{"args", "kwargs"}], "repeat", "carry"}: the steps follow each other,
    and what `carry` picks out of a step's result is given to the next one as an argument. All
    steps are done `repeat` times with the same argument objects. What is raised, goes on up.
    """
    torch = sys.modules.get("torch")
    with nullcontext() if torch is None else torch.no_grad():
        return [
            _call(function, call, request["lib"], request["dtype"]) for call in request["calls"]
        ]


def _call(function: Callable[..., Any], call: dict[str, Any], lib: str, dtype: str) -> Any:
    prepared = [_prepare(step, lib, dtype) for step in call["steps"]]
    before = [_copies(args, kwargs) for args, kwargs in prepared]
    repeats, started = [], time.perf_counter()
    for _ in range(call.get("repeat", 1)):
        results, value = [], None
        for index, (args, kwargs) in enumerate(prepared):
            carried = {}
            if (carry := call.get("carry")) is not None and index:
                carried = {carry["arg"]: pick(value, carry["where"])}
            value = function(*args, **kwargs, **carried)
            results.append(tree(value))
        repeats.append(results)
    seconds = time.perf_counter() - started
    changed: list[str] = []
    for (args, kwargs), copies in zip(prepared, before, strict=True):
        changed += _changed(args, kwargs, copies)
    return {"repeats": repeats, "mutated": sorted(set(changed)), "seconds": seconds}


def _prepare(step: dict[str, Any], lib: str, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    args = [argument(value, lib, dtype) for value in step["args"]]
    return args, {name: argument(v, lib, dtype) for name, v in step["kwargs"].items()}


def argument(value: dict[str, Any], lib: str, dtype: str) -> Any:
    """{"array", "as"} in the library's own form, `as` float (of `dtype`), bool or int; or the
    {"value"} itself."""
    if "array" not in value:
        return value["value"]
    array: Array = np.asarray(value["array"])
    name = {"float": dtype, "bool": "bool", "int": "int64"}[value["as"]]
    if lib == "torch":
        import torch

        return torch.tensor(array).to(getattr(torch, name))
    if name == "bfloat16":
        raise TypeError("NumPy has no bfloat16")
    array = array.astype(name)
    return array.tolist() if lib == "list" else array


def _copies(args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: _numbers(value) for name, value in _named(args, kwargs)}


def _named(args: list[Any], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((str(index), value) for index, value in enumerate(args))
    yield from kwargs.items()


def _numbers(value: Any) -> Any:
    """A copy of an argument's numbers, in plain form."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().double().numpy().copy()
    if isinstance(value, np.ndarray):
        return value.copy()
    return np.asarray(value) if isinstance(value, list) else None


def _changed(args: list[Any], kwargs: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """The arguments that are no longer what they were; a place counts from 0."""
    names = []
    for name, value in _named(args, kwargs):
        now, then = _numbers(value), before[name]
        if then is not None and not (
            now.shape == then.shape and np.array_equal(now, then, equal_nan=now.dtype.kind == "f")
        ):
            names.append(name)
    return names


@contextmanager
def quiet_generators(seed: int, dtype: str) -> Iterator[None]:
    """Seeds every global generator of the CPU, and puts them and torch's default dtype back.

    Not by torch.manual_seed, which writes down the whole stack for each kind of device that is
    not in use: ten times as long as a small attention takes, and kept for ever.
    """
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch_state = None if torch is None else (torch.get_rng_state(), torch.get_default_dtype())
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    if torch is not None:
        torch.default_generator.manual_seed(seed)
        # What the code makes itself (a triangle of ones, a constant) is then as precise as x.
        torch.set_default_dtype(torch.float64 if dtype == "float64" else torch.float32)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if torch is not None and torch_state is not None:
            torch.set_rng_state(torch_state[0])
            torch.set_default_dtype(torch_state[1])
