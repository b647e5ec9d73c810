"""check_impl from Python: a function, a class or an object of attention, judged in one call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from attn_cli.core.results_impl import ImplResult
from attn_cli.core.settings import Align, MaskMeans, Scale
from attn_cli.diagnosis.allowance import SECONDS
from attn_cli.diagnosis.host.session import LIMIT
from attn_cli.diagnosis.plan_json import Said, said_of
from attn_cli.diagnosis.saying import say
from attn_cli.workflows.check.boundary import BoundarySuite
from attn_cli.workflows.check.impl import check_impl as check
from attn_cli.workflows.plan_file import read_plan_file

ALIKE = (  # arguments that mean by themselves what they say of the code
    "call",
    "mask_means",
    "layout",
    "heads",
    "kv_heads",
    "scale",
    "softcap",
    "positions",
    "rope_base",
    "align",
)


def check_impl(
    target: Any,
    *,
    init: str | Mapping[str, Any] | None = None,
    call: str | None = None,
    mask_means: MaskMeans | None = None,
    names: str | Mapping[str, str] | None = None,
    returns: str | Iterable[str] | None = None,
    layout: str | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    mask: str | Iterable[str] = (),
    align: Align | None = None,
    positions: str | None = None,
    rope_base: float | None = None,
    scale: Scale | None = None,
    softcap: float | None = None,
    plan: str | PathLike[str] | Mapping[str, Any] | None = None,
    seed: int = 0,
    time_limit: float = LIMIT,
    total_time: float = SECONDS,
    trace: bool = True,
    boundary: bool = True,
) -> ImplResult:
    """The verdict on somebody's attention, as `attn check impl` gives it.

    `target` is a function, a class or an object, which is asked in this process and without a
    limit for one call, or "FILE.py:NAME", in a process of its own. No more is asked after
    `total_time` seconds: `asked` of the result says what is left out. `init` is what the
    constructor takes, as text or by name; `names` says which matrix is which (--map); `plan` is a
    file of attn.plan/1 or its object; `trace` finds the line, and `boundary` holds the code in the
    boundary cases. The other names are those of the options. Raises InputError where something must
    be said first, and its subclass Unusable where the code cannot be built or called.

    >>> import numpy as np
    >>> def attend(q, k, v):
    ...     scores = np.exp(q @ k.T / np.sqrt(q.shape[-1]))
    ...     return scores / scores.sum(axis=0) @ v
    >>> result = check_impl(attend)
    >>> result.verdict, [mistake.code for mistake in result.mistakes]
    ('wrong', ['softmax_over_queries'])
    """
    said = _said(dict(locals()))
    lines = BoundarySuite(seed=seed) if boundary else None
    times = {"limit": time_limit, "total": total_time}
    return check(target, said, seed=seed, trace=trace, lines=lines, **times)


def _said(given: Mapping[str, Any]) -> Said:
    """The arguments of `check_impl` by name as what they say of the code."""
    init, mask = given["init"], given["mask"]
    return say(
        _planned(given["plan"]),
        init=init if init is None or isinstance(init, str) else _arguments(init),
        names=_pairs(given["names"]),
        returns=_listed(given["returns"]),
        masks=(mask,) if isinstance(mask, str) else tuple(mask),
        **{name: given[name] for name in ALIKE},
    )


def _planned(plan: str | PathLike[str] | Mapping[str, Any] | None) -> Said:
    if plan is None:
        return Said()
    return read_plan_file(fspath(plan)) if isinstance(plan, str | os.PathLike) else said_of(plan)


def _arguments(init: Mapping[str, Any]) -> str:
    """As --init would say it; what has no literal is refused there."""
    return ", ".join(f"{name}={value!r}" for name, value in init.items())


def _pairs(names: str | Mapping[str, str] | None) -> str | None:
    if names is None or isinstance(names, str):
        return names
    return ",".join(f"{name}={role}" for name, role in names.items())


def _listed(returns: str | Iterable[str] | None) -> str | None:
    return returns if returns is None or isinstance(returns, str) else ", ".join(returns)
