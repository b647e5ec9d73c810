"""Mistake: one named mistake, and how the formula commits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from attn_cli.diagnosis.formula.work import Setting, Step, Steps


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to commit a mistake: the steps that it replaces, and in words what it does.

    Two variants can be committed together where they replace different steps.
    """

    note: str
    steps: Steps = field(default_factory=dict)


Variants = Callable[[Setting], Iterable[Variant]]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake that people make, by its code.

    `stage` is where it happens, `title` what the code does, `explanation` why that is wrong, `fix`
    what to write instead, `tell_apart` how to know it from others that give the same numbers.
    `variants` gives the ways in which code of a setting may commit it, none where it cannot; a
    mistake without `variants` is found by evidence of its own (see `attn_cli.diagnosis.evidence`).
    `boundary`: it shows on large scores alone. `marks` is a pattern of source text in which it is
    usually written: of equal explanations, the one that the source speaks for comes first.
    `alone`: what it does is vague, told neither in company nor of code that is nearer to right.
    """

    code: str
    stage: str
    title: str
    explanation: str
    fix: str
    tell_apart: str
    variants: Variants | None = None
    boundary: bool = False
    marks: str = ""
    alone: bool = False


def one(*, note: str = "", **steps: Step) -> Variants:
    """A single way to commit a mistake, whatever the setting."""

    def variants(setting: Setting) -> Iterator[Variant]:
        yield Variant(note, steps)

    return variants


def where(holds: Callable[[Setting], bool], variants: Variants) -> Variants:
    """The variants, where the setting has what they need."""

    def given(setting: Setting) -> Iterable[Variant]:
        return variants(setting) if holds(setting) else ()

    return given
