"""What `attn check grads` found: autograd beside finite differences, input by input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.core.findings import Finding
from attn_cli.core.results import InputSummary, json_number
from attn_cli.core.settings import Settings

INPUT = "input"  # the name of the case that is the user's own
CaseSizes = Mapping[str, int]  # "batch", "heads", "kv_heads", "queries", "keys", "d_k", "d_v" …
Verdict = Literal["right", "wrong", "undecided"]
Reason = Literal[
    "",  # right
    "zero",  # right, and no number of it differs from 0
    "differs",  # autograd and finite differences disagree
    "nan",  # autograd is not finite where the differences are
    "leak",  # autograd is not 0 at what is hidden
    "missing",  # autograd says that the output does not depend on it
    "gradcheck",  # torch.autograd.gradcheck alone objects
    "imprecise",  # the differences cannot tell
]


@dataclass(frozen=True, slots=True)
class Spot:
    """One coordinate of an input, and the two derivatives there.

    `at` maps the input's axes to indices. `head` is the query head whose output was looked at, None
    where the heads' outputs are mixed. `allowed` is what the differences may be off by.
    """

    at: Mapping[str, int]
    head: int | None
    analytic: float
    numeric: float
    allowed: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "where": dict(self.at),
            "output_head": self.head,
            "analytic": json_number(self.analytic),
            "numeric": json_number(self.numeric),
            "allowed": json_number(self.allowed),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGrads:
    """The gradient of one input: what was compared, how far apart it is, and where most.

    `checked` of `total` coordinates were moved one by one; where that is not all, a random
    direction through all of them was, too. `step` is what they were moved by. `max_abs` is the
    largest |analytic − numeric|, `max_rel` that over the largest |numeric| of the input. `zeros`
    coordinates must be exactly 0, and `not_zero` of them are not. `heads` are the output heads in
    which it is wrong, and `like` says what a wrong one has in common with the right one.
    `gradcheck` is the first line of what torch.autograd.gradcheck raised.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    verdict: Verdict
    reason: Reason
    checked: int
    total: int
    step: float
    max_abs: float
    max_rel: float
    worst: Spot
    zeros: int
    not_zero: int
    heads: tuple[int, ...] = ()
    like: str = ""
    gradcheck: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "input": self.name,
            "axes": list(self.axes),
            "shape": list(self.shape),
            "verdict": self.verdict,
            "reason": self.reason or None,
            "coordinates": self.total,
            "checked": self.checked,
            "step": json_number(self.step),
            "max_abs": json_number(self.max_abs),
            "max_rel": json_number(self.max_rel),
            **self.worst.to_dict(),
            "must_be_zero": self.zeros,
            "not_zero": self.not_zero,
            "wrong_heads": list(self.heads),
            "like": self.like or None,
            "gradcheck": "passed" if self.gradcheck is None else self.gradcheck,
        }


@dataclass(frozen=True, slots=True)
class GroupSums:
    """The gradient of a shared head of k or v beside the sum over the query heads that share it.

    The sum is taken with keys and values repeated for every query head, each with its own gradient.
    """

    name: str
    verdict: Verdict
    worst: Spot  # analytic: of the shared head; numeric: the sum

    def to_dict(self) -> dict[str, Any]:
        spot = self.worst.to_dict()
        spot.pop("output_head")
        spot["shared"], spot["sum"] = spot.pop("analytic"), spot.pop("numeric")
        return {"input": self.name, "verdict": self.verdict, **spot}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGrads:
    """One question's gradients: its name, its sizes, what was checked, or `why` nothing was."""

    name: str
    sizes: CaseSizes
    layer: int | None = None
    inputs: tuple[InputGrads, ...] = ()
    groups: tuple[GroupSums, ...] = ()
    why: str = ""

    @property
    def verdict(self) -> Verdict:
        inputs = [part.verdict for part in self.inputs]
        return overall([*inputs, *(part.verdict for part in self.groups)])

    def to_dict(self) -> dict[str, Any]:
        return {
            "case": self.name,
            "layer": self.layer,
            "sizes": dict(self.sizes),
            "verdict": self.verdict,
            "why": self.why or None,
            "inputs": [part.to_dict() for part in self.inputs],
            "group_sums": [part.to_dict() for part in self.groups],
        }


@dataclass(frozen=True, slots=True)
class Norm:
    """The length of one gradient with the scale on the scores, and without."""

    name: str
    scaled: float
    unscaled: float

    @property
    def ratio(self) -> float:
        """Without over with; NaN where both are 0."""
        return self.unscaled / self.scaled if self.scaled else float("nan")

    def to_dict(self) -> dict[str, Any]:
        return {
            "input": self.name,
            "with_scale": json_number(self.scaled),
            "without_scale": json_number(self.unscaled),
            "ratio": json_number(self.ratio),
        }


@dataclass(frozen=True, slots=True)
class Norms:
    """Gradient norms of one question, of the loss Σ cotangent · output over `outputs` numbers.

    `scale` is the factor on the scores that "with" means.
    """

    case: str
    sizes: CaseSizes
    scale: float
    outputs: int
    rows: tuple[Norm, ...]
    layer: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "layer": self.layer,
            "sizes": dict(self.sizes),
            "scale": self.scale,
            "loss": "sum of a standard normal cotangent times the output",
            "outputs": self.outputs,
            "norms": [row.to_dict() for row in self.rows],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GradsResult:
    """Everything `attn check grads` knows. `input` and `settings` are None of the default set.

    `code`: the subject is somebody's code, asked one drawn question.
    """

    subject: str
    seed: int
    cases: tuple[CaseGrads, ...]
    norms: tuple[Norms, ...]
    findings: tuple[Finding, ...]
    input: InputSummary | None = None
    settings: Settings | None = None
    fine: tuple[str, ...] = ()  # what was checked and holds, in words
    code: bool = False

    @property
    def verdict(self) -> Verdict:
        return overall([case.verdict for case in self.cases])

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.check.grads/1."""
        return {
            "schema": "attn.check.grads/1",
            "subject": self.subject,
            "seed": self.seed,
            "dtype": "float64",
            "input": None if self.input is None else self.input.to_dict(),
            "settings": None if self.settings is None else self.settings.to_dict(),
            "verdict": self.verdict,
            "cases": [case.to_dict() for case in self.cases],
            "norms": [norms.to_dict() for norms in self.norms],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def overall(verdicts: list[Verdict]) -> Verdict:
    """Wrong where one is; else undecided where one is, or where there is none; else right."""
    if "wrong" in verdicts:
        return "wrong"
    return "undecided" if "undecided" in verdicts or not verdicts else "right"


def written(name: str) -> str:
    """An input as a reader writes it: W_q for w_q.

    >>> written("w_q"), written("k"), written("w_q.weight")
    ('W_q', 'k', 'w_q.weight')
    """
    return name[0].upper() + name[1:] if name.startswith("w_") and "." not in name else name
