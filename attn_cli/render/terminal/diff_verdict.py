"""The last lines of `attn diff`: the stage that parts first, and whose fault it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from attn_cli.core.results_diff import SIDES, DiffResult, StageResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import FINE
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import counted, hanging

WORDS = {  # a stage in a sentence, where its name alone is no noun
    "x": "token vectors",
    "x_positions": "token vectors with positions",
    "scaled": "scaled scores",
    "softcapped": "capped scores",
    "biased": "biased scores",
    "masked": "masked scores",
    "merged": "merged heads",
}
SINGULAR = ("q", "k", "v", "q_rotated", "k_rotated", "context", "output", "lse")


def verdict(result: DiffResult, screen: Screen) -> Text:
    """The last line or two."""
    if not result.stages:
        return _line(
            "?", "no stage could be compared, so nothing is decided", screen, "bold yellow"
        )
    first = result.first_difference
    if first is None:
        return _line("✓", _agreement(result), screen, FINE)
    words = "; ".join(_difference(result, next(s for s in result.stages if s.stage == first)))
    return _line("✗", words, screen, ERROR)


def place(stage: StageResult) -> str:
    """Where the worst element is: axes with indices, and tokens where there are."""
    several = {"batch"} if stage.left.shape[0] == 1 else set()
    parts = []
    for axis, index in stage.where.items():
        if axis not in several:
            token = stage.tokens.get(axis)
            parts.append(f"{axis} {index}" + (f" ({token})" if token else ""))
    return " ".join(parts)


def stage_noun(stage: str) -> tuple[str, str]:
    """A stage in a sentence, and "does" or "do" after it."""
    return _noun(stage), _verb(stage, "does", "do")


def _agreement(result: DiffResult) -> str:
    counts: Counter[str] = Counter(stage.verdict for stage in result.stages)
    parts = [
        f"{counts[name]} {said}"
        for name, said in (("identical", "identical"), ("rounding", "within rounding"))
        if counts[name]
    ]
    stages = counted(len(result.stages), "stage")
    return f"{stages} compared, no difference: {', '.join(parts)}"


def _difference(result: DiffResult, first: StageResult) -> Iterator[str]:
    yield _parting(result, first)
    if first.values is not None:
        left, right = _told_apart(*first.values)
        yield f"worst at {place(first)}: left {left}, right {right}"
    yield from _faults(result, first)


def _told_apart(left: float, right: float) -> tuple[str, str]:
    """Both numbers, with as many digits as tell them apart."""
    for digits in (6, 9, 12, 15):
        words = f"{left:.{digits}g}", f"{right:.{digits}g}"
        if words[0] != words[1]:
            return words
    return f"{left:.17g}", f"{right:.17g}"


def _parting(result: DiffResult, first: StageResult) -> str:
    """ "scores agree, weights do not"."""
    before = result.stages[: result.stages.index(first)]
    name, negated = _noun(first.stage), _verb(first.stage, "does not", "do not")
    if first.left.shape != first.right.shape:
        left, right = ("×".join(map(str, side.shape)) for side in (first.left, first.right))
        name, negated = f"{name} of {left} and of {right}", "are not compared"
    if not before:
        joined = "agree" if negated != "are not compared" else ""
        return f"{name} {negated} {joined}".rstrip()
    last = before[-1].stage
    return f"{_noun(last)} {_verb(last, 'agrees', 'agree')}, {name} {negated}"


def _faults(result: DiffResult, first: StageResult) -> Iterator[str]:
    """Every stage where a side is wrong by itself; the rest follows from them."""
    own = [
        f"{side}'s own in {_noun(stage.stage)}"
        for stage in result.stages
        if stage.verdict == "different" or len(stage.faulty) == 1
        for side in stage.faulty
    ]
    if own:
        yield f"the fault is {' and '.join(own)}"
        named = {side: found.words for side, found in result.mistakes.items() if found.words}
        for side, words in named.items():
            yield words if len(result.mistakes) == 1 else f"{side}: {words}"
        return
    wrong = [side for side in SIDES if getattr(first, side).beyond]
    if len(wrong) == 1:
        yield f"{wrong[0]} is off; what it was made from is not there to tell why"
    elif not wrong and first.stage == "scores" and len(_holding(result)) == 1:
        yield f"that is {_holding(result)[0]}'s convention, and no fault: its scores hold the scale"
    elif not wrong and first.stage == "masked" and _says(result, "finite-fill"):
        yield "that is a convention, and no fault: a finite fill hides as −∞ does"
    elif not wrong:
        yield "which side is off cannot be told"


def _holding(result: DiffResult) -> list[str]:
    """The sides whose scores hold the scale."""
    found = (finding for finding in result.findings if finding.code == "scaled-scores")
    return [finding.message.partition(":")[0] for finding in found]


def _noun(stage: str) -> str:
    return WORDS.get(stage, stage)


def _verb(stage: str, singular: str, plural: str) -> str:
    return singular if stage in SINGULAR else plural


def _line(sign: str, words: str, screen: Screen, style: str) -> Text:
    mark = screen.text(sign, style)
    line = Text(" ").join([mark, screen.text(words, "bold")])
    return hanging(line, screen, indent=mark.cell_len + 1)


def _says(result: DiffResult, code: str) -> bool:
    return any(finding.code == code for finding in result.findings)
