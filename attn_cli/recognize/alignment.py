"""Alignment: at which position does query 0 stand among the keys? Never guessed."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.findings import Finding, note
from attn_cli.core.settings import Align


@dataclass(frozen=True, slots=True)
class Alignment:
    """`q_offset` is the position of query 0; None where queries and keys have no common origin."""

    q_offset: int | None
    findings: tuple[Finding, ...] = ()


def align_positions(
    queries: int, keys: int, *, asked: Align | None, cross: bool, compares: str | None
) -> Alignment:
    """Where the queries stand: as asked; else at the keys of the same number, if as many.

    Two sequences (`cross`) have a common origin only where it was asked for, or where something
    that compares positions needs one and they are as long as each other; `compares` names it.
    """
    if asked is not None:
        offset = keys - queries if asked == "lower-right" else 0
        last = "the last query is the last key" if asked == "lower-right" else "query 0 is key 0"
        said = note("alignment", f"{queries} queries against {keys} keys, {asked}: {last}")
        return Alignment(offset, (said,) if queries != keys or cross else ())
    if queries != keys:
        return Alignment(None)
    if not cross:
        return Alignment(0)
    if compares is not None:
        both = f"{compares} compares positions of two sequences: query 0 is taken to be at key 0"
        return Alignment(0, (note("alignment", both),))
    return Alignment(None)
