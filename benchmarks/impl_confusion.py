"""Which verdict, and which mistake, `attn check impl` gives for a folder of implementations.

    python -m benchmarks.impl_confusion [FOLDER] [--no-plan]

Without FOLDER it tries the project's own hand-written code (tests/unit/diagnosis/impls): one wrong
and one right implementation for every named mistake. FOLDER/manifest.json holds {"entries":
[{"file", "entry", "class", "verdict", "call", "intent", "also_accept"}]}: `class` is the code of
the one mistake in a file, or correct…, or unusable…, and `verdict` correct, wrong or unusable.
Prints a table class × verdict, the cases that went wrong, and how long the slowest took. With
`--no-plan` only the constructor's arguments are said, and what the mask means.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attn_cli.diagnosis.plan import MASK_KINDS
from attn_cli.diagnosis.plan_json import Said, said_of
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.errors import AttnError
from attn_cli.workflows.check.boundary import BoundarySuite
from attn_cli.workflows.check.impl import check_impl
from tests.unit.diagnosis.wrong_cases import CASES

VERDICTS = ("correct", "wrong", "fragile", "undecided", "unusable", "asks")
FRAGILE = ("correct_fragile", "softmax_overflow", "late_mask_underflow", "wrong_on_large_scores")
IMPLS = Path(__file__).resolve().parent.parent / "tests/unit/diagnosis/impls"


@dataclass(frozen=True, slots=True)
class Tried:
    """One case, and what came of it; `fits` where verdict and mistake are the case's own."""

    file: str
    kind: str
    verdict: str
    codes: tuple[str, ...]
    fits: bool
    seconds: float


def main() -> None:
    """Tries every case and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--no-plan", action="store_true")
    args = parser.parse_args()
    folder = args.folder or IMPLS
    tried = [_tried(folder, entry, with_plan=not args.no_plan) for entry in _entries(args.folder)]
    for line in _lines(tried):
        print(line)


def _entries(folder: Path | None) -> list[dict[str, Any]]:
    if folder is None:
        return list(_own())
    found: list[dict[str, Any]] = json.loads((folder / "manifest.json").read_text("utf-8"))[
        "entries"
    ]
    return found


def _own() -> Iterator[dict[str, Any]]:
    """The project's own cases in the form of a manifest, each right counterpart once."""
    right = {case.right: case for case in CASES}
    pairs = [(case.entry, case.code, "wrong", case) for case in CASES]
    pairs += [(entry, "correct", "correct", case) for entry, case in right.items()]
    for entry, kind, verdict, case in pairs:
        file, _, name = entry.partition(":")
        yield {"file": file, "entry": name, "class": kind, "verdict": verdict} | {
            "call": case.call,
            "intent": case.intent,
        }


def _tried(folder: Path, entry: Mapping[str, Any], *, with_plan: bool) -> Tried:
    started = time.perf_counter()
    codes: tuple[str, ...] = ()
    try:
        said = _said(entry, with_plan=with_plan)
        target = f"{folder / entry['file']}:{entry['entry']}"
        result = check_impl(target, said, trace=False, lines=BoundarySuite())
        verdict = str(result.verdict)
        codes = tuple(one.code for one in result.mistakes)
        codes += tuple(one.code for one in result.alternatives)
    except Unusable:
        verdict = "unusable"
    except AttnError:
        verdict = "asks"
    fits = _fits(entry, verdict, codes)
    seconds = time.perf_counter() - started
    return Tried(entry["file"], entry["class"], verdict, codes, fits, seconds)


def _said(entry: Mapping[str, Any], *, with_plan: bool) -> Said:
    if entry["verdict"] == "unusable":
        return Said()
    if with_plan:
        return said_of({"call": entry["call"], "intent": entry["intent"]})
    init, mask = entry["call"].get("init"), entry["call"].get("mask")
    said = said_of({"call": {"init": init}}) if init else Said()
    means = MASK_KINDS[mask["kind"]][1] if mask else "bias"
    return said if means == "bias" else replace(said, mask_means=means)


def _fits(entry: Mapping[str, Any], verdict: str, codes: tuple[str, ...]) -> bool:
    kind = entry["class"]
    if kind in FRAGILE:
        return verdict == "fragile"
    if entry["verdict"] != "wrong":
        return verdict == str(entry["verdict"])
    accepted = {kind, *entry.get("also_accept", ())}
    return verdict == "wrong" and len(codes) <= 2 and bool(accepted & set(codes))


def _lines(tried: list[Tried]) -> Iterator[str]:
    table = Counter((one.kind, one.verdict) for one in tried)
    width = max(len(one.kind) for one in tried)
    yield f"{'class':{width}}  " + "  ".join(f"{verdict:>9}" for verdict in VERDICTS)
    for kind in dict.fromkeys(sorted(one.kind for one in tried)):
        counts = (table[kind, verdict] for verdict in VERDICTS)
        yield f"{kind:{width}}  " + "  ".join(f"{count or '·':>9}" for count in counts)
    for one in tried:
        if not one.fits:
            yield f"not as meant: {one.file} {one.kind}: {one.verdict} {', '.join(one.codes)}"
    slowest = max(tried, key=lambda one: one.seconds)
    yield f"{sum(one.fits for one in tried)} of {len(tried)} as meant"
    yield f"slowest: {slowest.file}, {slowest.seconds:.1f} s, start of the process included"


if __name__ == "__main__":
    main()
