"""Interviewing: every probe asked of the code, and held against the reference."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attn_cli.diagnosis.allowance import INTERVIEW
from attn_cli.diagnosis.answers import Observed
from attn_cli.diagnosis.formula.work import Setting
from attn_cli.diagnosis.probes.probe import Probe, Seen, see
from attn_cli.diagnosis.probes.suite import suite
from attn_cli.diagnosis.subject import Adapted
from attn_cli.errors import InputError

_MOST_CONSTANTS = 40
_HOPELESS = ("time", "died", "exit")  # troubles after which nothing more is asked


@dataclass(frozen=True, slots=True, eq=False)
class Interview:
    """All probes with their answers. `dtype` is the precision in which the code ran.

    `dropped` are probes that the code does not take and need not: it fails there. `needs_mask`:
    it fails wherever no mask is given. `once` are the probes that it answers once only: a second
    call with the same arguments fails. `planned` is how many probes there are: fewer are asked
    where the time is up, or where a call ran too long or ended the process.
    """

    setting: Setting
    dtype: str
    seen: tuple[Seen, ...]
    dropped: tuple[Seen, ...] = ()
    needs_mask: bool = False
    once: tuple[str, ...] = ()
    planned: int = 0

    @property
    def asked(self) -> int:
        return len(self.seen) + len(self.dropped)


def interview(adapted: Adapted, *, seed: int = 0) -> Interview:
    """Asks everything, each probe twice with the same arguments."""
    source = source_of(adapted.file)
    own = own_part(source, adapted.name.rpartition(":")[2])
    setting = Setting(adapted.plan, adapted.parameters, constants(source), own)
    probes = suite(setting, seed=seed)
    if not probes:
        raise InputError(
            f"{adapted.name} can be asked nothing: no question fits its plan",
            hint="do heads, head_dim and the widths of its matrices fit together?",
        )
    dtype = _precision(adapted, probes)
    seen: list[Seen] = []
    once: list[str] = []
    for probe in probes:
        if seen and adapted.allowance.over(INTERVIEW):
            break
        question, asked_in = probe.question, probe.dtype or dtype
        observed = adapted.attend(question, dtype=asked_in, repeat=2)
        hopeless = observed.trouble is not None and observed.trouble.kind in _HOPELESS
        if observed.output is None and not hopeless:
            observed = adapted.attend(question, dtype=asked_in)
            once += [] if observed.output is None else [probe.name]
        seen.append(see(probe, observed, setting))
        if hopeless:
            break
    told = _sorted(setting, dtype, seen)
    return replace(told, once=tuple(once), planned=len(probes))


def _sorted(setting: Setting, dtype: str, seen: Sequence[Seen]) -> Interview:
    """Without the probes that the code need not take."""
    bare = [one for one in seen if one.question.keep is None and one.question.bias is None]
    masked = [one for one in seen if one not in bare]
    needs_mask = bool(masked) and all(one.failed for one in bare)
    needs_mask = needs_mask and not all(one.failed for one in masked)
    kept: list[Seen] = []
    dropped: list[Seen] = []
    for one in seen:
        optional = not one.probe.needed or (needs_mask and one in bare)
        (dropped if one.failed and optional else kept).append(one)
    return Interview(setting, dtype, tuple(kept), tuple(dropped), needs_mask)


def _precision(adapted: Adapted, probes: Sequence[Probe]) -> str:
    """float64, or float32 where the code takes that alone."""
    for dtype in ("float64", "float32"):
        for probe in probes[:12]:
            if adapted.allowance.over(INTERVIEW):
                return dtype
            if adapted.attend(probe.question, dtype=dtype).output is not None:
                return dtype
    return "float64"


def source_of(file: str | None) -> str:
    """The text of the code's file, empty where there is none."""
    try:
        return "" if file is None else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def own_part(source: str, name: str) -> str:
    """The text of the function or class called `name`; all of it where there is none such."""
    try:
        tree = ast.parse(source)
    except (ValueError, SyntaxError, RecursionError):
        return source
    for node in tree.body:
        if getattr(node, "name", None) == name:
            return ast.get_source_segment(source, node) or source
    return source


def constants(source: str) -> tuple[float, ...]:
    """The numbers that are written in the source, each once: a fill, an epsilon, a limit.

    >>> constants("scores.masked_fill(mask == 0, -20.5) / 8 ** 0.5")
    (8.0, 0.5, 0.0, 20.5)
    """
    try:
        tree = ast.parse(source)
    except (ValueError, SyntaxError, RecursionError):
        return ()
    found = [
        float(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and abs(node.value) < 1e300
    ]
    return tuple(dict.fromkeys(found))[:_MOST_CONSTANTS]


def with_mask_dtype(adapted: Adapted, dtype: str) -> Adapted | None:
    """The same code, its mask given in another dtype; None where it takes no such mask."""
    spec = adapted.plan.call.mask
    if spec is None or spec.means not in ("keep", "hidden") or spec.dtype == dtype:
        return None
    call = replace(adapted.plan.call, mask=replace(spec, dtype=dtype))
    return replace(adapted, plan=replace(adapted.plan, call=call))


def answer(observed: Observed) -> str:
    """What came, in a few words."""
    if observed.trouble is None:
        return "an answer"
    line = "" if observed.trouble.line is None else f" on line {observed.trouble.line}"
    return f"{observed.trouble.kind}{line}: {observed.trouble.message}"
