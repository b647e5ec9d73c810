"""Checks of tiny models with random weights, and faults planted into them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attn_cli.core.results_model_ways import CHECKS, WayCheck
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.ways.checks import run_checks
from tests.unit.models.hf.making import drawn

LENGTH = 9


def checked(
    loaded: LoadedModel, *names: str, inputs: ModelInputs | None = None
) -> dict[tuple[str, str], WayCheck]:
    """The results by check and way, of one drawn text."""
    given = drawn(loaded, LENGTH) if inputs is None else inputs
    coverage = capture(loaded, given, verify=False).coverage
    found = run_checks(loaded, given, coverage, names or tuple(CHECKS), range(given.batch))
    return {(check.name, check.way): check for check in found}


def verdicts(found: dict[tuple[str, str], WayCheck]) -> dict[str, str]:
    """`padding left: rounding`; what does not apply is a dash."""
    return {" ".join(key): check.verdict or "–" for key, check in found.items()}


@contextmanager
def altered(module: Any, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """`change` may write into the arguments of a module, by their names, whenever it runs."""

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = inspect.signature(module.forward).parameters
        changed = {**dict(zip(names, args, strict=False)), **kwargs}
        change(changed)
        return (), changed

    handle = module.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
