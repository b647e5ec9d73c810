"""Adapting: from FILE.py:NAME and what was said of it to an Adapted that can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attn_cli.core.findings import Finding, note
from attn_cli.diagnosis.allowance import SECONDS, Allowance
from attn_cli.diagnosis.host.session import LIMIT, START_LIMIT, ChildSession, LocalSession, Session
from attn_cli.diagnosis.host.trouble import trouble_of
from attn_cli.diagnosis.infer.complete import complete
from attn_cli.diagnosis.plan_json import Said
from attn_cli.diagnosis.subject import Adapted
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.errors import InputError


def adapt(
    target: str,
    said: Said = Said(),
    *,
    seed: int = 0,
    limit: float = LIMIT,
    total: float = SECONDS,
    session: Session | None = None,
) -> Adapted:
    """The code that `target` names, FILE.py:NAME or package.module:NAME, in a process of its own.

    What `said` leaves open is worked out from the code. Importing runs it. `limit` is the seconds
    that one call may take, `total` what all of them may, once it is imported. `session` is a
    process, or none, that is there already. Raises Unusable where the code cannot be imported,
    found, built or called, InputError where something must be said first.
    """
    session = session or ChildSession()
    try:
        return _adapt(session, target, {"op": "load", **_place(target)}, said, seed, limit, total)
    except BaseException:
        session.close()
        raise


def names_code(text: str) -> bool:
    """Whether `text` is FILE.py:NAME or package.module:NAME, and not the name of a file.

    >>> names_code("mine.py:attend"), names_code("my.package:Attention"), names_code("a.npz")
    (True, True, False)
    """
    place, colon, name = text.rpartition(":")
    named = all(part.isidentifier() for part in name.split("."))
    module = all(part.isidentifier() for part in place.split("."))
    return bool(colon) and named and (place.endswith(".py") or module) and not Path(text).exists()


def adapt_object(
    target: Any,
    said: Said = Said(),
    *,
    name: str,
    seed: int = 0,
    limit: float = LIMIT,
    total: float = SECONDS,
) -> Adapted:
    """The same for an object that no file's name leads to: in this process, no time limit of a
    call."""
    return _adapt(LocalSession(target), name, {"op": "load"}, said, seed, limit, total)


def _place(target: str) -> dict[str, str]:
    """FILE.py:NAME or package.module:NAME as a request; a file need not end in .py:NAME twice."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InputError(
            f"{target} names no function or class: expected FILE.py:NAME or package.module:NAME"
        )
    path = Path(place)
    if path.suffix == ".py" or path.is_file():
        if not path.is_file():
            raise InputError(f"there is no file {place}")
        return {"file": str(path.resolve()), "name": name}
    if not all(part.isidentifier() for part in place.split(".")):
        raise InputError(f"{place} is neither a file nor the name of a module")
    return {"module": place, "name": name}


def _adapt(
    session: Session,
    name: str,
    load: dict[str, str],
    said: Said,
    seed: int,
    limit: float,
    total: float,
) -> Adapted:
    loaded = session.ask(load, limit=START_LIMIT)
    if "trouble" in loaded:
        raise Unusable(name, trouble_of(loaded))
    facts = loaded["ok"]
    allowance = Allowance(total)
    done = complete(session, facts, said, name=name, seed=seed, limit=limit, allowance=allowance)
    findings: tuple[Finding, ...] = done.findings
    if said.unknown:
        message = f"not of attn.plan/1, and not read: {', '.join(said.unknown)}"
        findings = (note("plan-unknown", message), *findings)
    return Adapted(
        name=name,
        file=facts["file"],
        plan=done.plan,
        parameters=done.parameters,
        session=session,
        numbers=done.numbers,
        findings=findings,
        limit=limit,
        weights_said="weights" in said.intent,
        allowance=allowance,
    )
