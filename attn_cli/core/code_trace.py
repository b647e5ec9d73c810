"""CodeTrace: what somebody's code did, line by line, beside the stages of the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

# Stages in words, and steps on the way to one, which have no stage of their own.
STAGE_WORDS = {
    "x": "x",
    "x_positions": "x + positions",
    "q": "q",
    "k": "k",
    "v": "v",
    "q_rotated": "q rotated",
    "k_rotated": "k rotated",
    "scores": "scores",
    "scaled": "scaled scores",
    "softcapped": "softcapped scores",
    "biased": "biased scores",
    "masked": "masked scores",
    "weights": "weights",
    "context": "context",
    "merged": "merged heads",
    "output": "output",
}

Why = Literal["values", "arrangement", "precision", "raises", "stops"]


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """How an array lies in memory: `strides` in elements; None for lists and numbers."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    contiguous: bool | None
    dtype: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "shape": list(self.shape),
            "strides": None if self.strides is None else list(self.strides),
            "contiguous": self.contiguous,
            "dtype": self.dtype,
        }


@dataclass(frozen=True, slots=True)
class Operation:
    """One expression of a line, and what it gave the last time.

    `source` is its text, `name` what it does: "@", "softmax", "[]=", or the class of a module.
    `outer` says that no other expression of its statement uses it, `own` that it calls a function
    of the user's files. `count` is how often it was done, `parts` how many arrays it gave at once.
    `before` and `copied` are known of operations
    that lay numbers out anew: what they were given, and whether the result lies elsewhere. `stages`
    are those of the reference that its values are, in the order in which it gave them; `label`
    says so in words, steps on the way to a stage included. `axes` names those of `layout`, where
    they are known. `should_be` is the stage whose place it takes with other values. `layout` is
    None where it `raised`.
    """

    name: str
    source: str
    layout: ArrayLayout | None
    outer: bool = True
    own: bool = False
    count: int = 1
    parts: int = 1
    before: ArrayLayout | None = None
    copied: bool | None = None
    stages: tuple[str, ...] = ()
    label: str | None = None
    axes: tuple[str, ...] | None = None
    should_be: str | None = None
    why: Why | None = None
    raised: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.layout is None else self.layout.shape

    @property
    def strides(self) -> tuple[int, ...] | None:
        return None if self.layout is None else self.layout.strides

    @property
    def contiguous(self) -> bool | None:
        return None if self.layout is None else self.layout.contiguous

    @property
    def dtype(self) -> str:
        return "" if self.layout is None else self.layout.dtype

    def to_dict(self) -> dict[str, Any]:
        laid = ArrayLayout((), None, None, "") if self.layout is None else self.layout
        return {
            "operation": self.name,
            "source": self.source,
            **({"shape": None} if self.layout is None else laid.to_dict()),
            "axes": None if self.axes is None else list(self.axes),
            "count": self.count,
            "parts": self.parts,
            "before": None if self.before is None else self.before.to_dict(),
            "copied": self.copied,
            "label": self.label,
            "stages": list(self.stages),
            "should_be": self.should_be,
            "raised": self.raised,
        }


@dataclass(frozen=True, slots=True)
class TracedLine:
    """One line of the user's files: its text, and its operations in the order of doing them.

    `label` is what the line's results are, in words; `stage` the last of their stages; `agrees` is
    True where they have one, False where they take the place of `should_be` with other values,
    None where nothing is known. `count` is how often the line was run.
    """

    file: str
    line: int
    source: str
    operations: tuple[Operation, ...]
    count: int = 1
    label: str | None = None
    stage: str | None = None
    agrees: bool | None = None
    should_be: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "source": self.source,
            "count": self.count,
            "label": self.label,
            "stage": self.stage,
            "agrees": self.agrees,
            "should_be": self.should_be,
            "operations": [operation.to_dict() for operation in self.operations],
        }


@dataclass(frozen=True, slots=True)
class Parting:
    """The first line that departs from the reference: `stage` is what it should give.

    `why`: its values are others; they are the stage's in another
    arrangement, or in a coarser precision than was asked for; it raises; or the code ends or is
    ended there.
    `detail` is a sentence of evidence.
    """

    file: str
    line: int
    source: str
    stage: str | None
    why: Why
    detail: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "source": self.source,
            "stage": self.stage,
            "why": self.why,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class CodeTrace:
    """One question answered under observation.

    `question` is its name, `dtype` what it was asked in. `output_agrees` is whether the answer was
    the reference's (None: there was none). `first_parting` is None where nothing parts, or where
    no line can be blamed. `trouble` is what the code raised. `notes` say what could not be seen.
    """

    name: str
    file: str | None
    question: str
    dtype: str
    lines: tuple[TracedLine, ...]
    output_agrees: bool | None
    first_parting: Parting | None = None
    trouble: str | None = None
    notes: tuple[str, ...] = ()

    def line_of(self, stage: str) -> TracedLine | None:
        """The last line that gives `stage`, else the first that should; None where none does."""
        gives = [line for line in self.lines if any(stage in op.stages for op in line.operations)]
        should = [line for line in self.lines if line.should_be == stage]
        return gives[-1] if gives else should[0] if should else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "dtype": self.dtype,
            "file": self.file,
            "output_agrees": self.output_agrees,
            "first_parting": None if self.first_parting is None else self.first_parting.to_dict(),
            "trouble": self.trouble,
            "notes": list(self.notes),
            "lines": [line.to_dict() for line in self.lines],
        }
