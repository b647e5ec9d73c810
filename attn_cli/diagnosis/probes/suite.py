"""The probes of a plan: sizes, masks and scores in which no mistake hides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.formula.work import Setting
from attn_cli.diagnosis.meaning import ask, reference
from attn_cli.diagnosis.plan import HEADED
from attn_cli.diagnosis.probes.probe import Probe
from attn_cli.diagnosis.question import Question
from attn_cli.errors import InputError

QUERIES = 5
KEYS = 7
LARGE = 1500.0  # the spread of large scores: exp overflows, in float64 too
STEPS = ((1, 1, 1, 1, 1, 1), (3, 1, 2), (4, 2))


def suite(setting: Setting, *, seed: int = 0) -> list[Probe]:
    """Every probe that the plan takes, plain ones first; the same for the same seed."""
    return list(_Suite(setting, seed).probes())


@dataclass(frozen=True, slots=True)
class _Suite:
    setting: Setting
    seed: int

    def probes(self) -> Iterator[Probe]:
        yield from self._ordinary()
        yield from self._masked()
        yield from self._cached()
        yield from self._boundaries()

    def _ordinary(self) -> Iterator[Probe]:
        L = self._length()
        for layout in self.setting.plan.call.layouts:
            yield from self._one(f"plain {layout}", Sizes(queries=L), layout=layout)
        yield from self._one("one item", Sizes(batch=1, queries=L + 1))
        yield from self._one("L < S", Sizes(queries=L, keys=L + 2))
        yield from self._one("L > S", Sizes(queries=L + 1, keys=L - 1))
        for layout in self.setting.plan.call.layouts:
            if self._headed(layout) or layout not in ("LD", "HLD"):
                yield from self._one(f"equal sizes {layout}", self._square(), layout=layout)
        if self._headed("BLD") or "LD" in self.setting.plan.call.layouts:
            yield from self._one("L = d", Sizes(queries=8))

    def _masked(self) -> Iterator[Probe]:
        if self.setting.mask is None:
            return
        L = self._length()
        for layout in self.setting.plan.call.layouts:
            sizes = Sizes(batch=3, queries=L + 1)
            yield from self._one(f"mask {layout}", sizes, masked=True, layout=layout)
        yield from self._one("mask, one item", Sizes(batch=1, queries=L), masked=True, seed=3)
        yield from self._one("mask, L < S", Sizes(queries=L, keys=L + 2), masked=True, seed=1)
        yield from self._one("mask, equal sizes", self._square(), masked=True, seed=2)
        yield from self._hiding_nothing(L)

    def _cached(self) -> Iterator[Probe]:
        if self.setting.cached:
            for steps in STEPS:
                name = f"in steps of {', '.join(map(str, steps))}"
                yield from self._one(name, Sizes(queries=sum(steps)), steps=steps)

    def _boundaries(self) -> Iterator[Probe]:
        L = self._length()
        yield from self._one("small scores", Sizes(queries=L), size=0.1, boundary="small scores")
        for masked in (False, True):
            name = "large scores, mask" if masked else "large scores"
            for layout in self.setting.plan.call.layouts[-1:]:
                yield from self._large(name, Sizes(queries=L + 1), masked, layout)
        yield from self._one("one token", Sizes(queries=1), boundary="one token", needed=False)
        yield from self._identical(L)
        longest = self._longest(40)
        yield from self._one(
            "far apart", Sizes(queries=longest), boundary="far apart", needed=False
        )
        if self.setting.plan.call.lib == "numpy" and not self.setting.projected:
            yield from self._one(
                "whole numbers",
                Sizes(queries=L),
                whole=True,
                dtype="int64",
                needed=False,
            )

    def _one(
        self,
        name: str,
        sizes: Sizes,
        *,
        masked: bool = False,
        layout: str | None = None,
        size: float = 1.0,
        steps: tuple[int, ...] = (),
        whole: bool = False,
        seed: int = 0,
        boundary: str | None = None,
        needed: bool = True,
        dtype: str | None = None,
    ) -> Iterator[Probe]:
        """The probe, where the plan takes it."""
        if masked and self.setting.mask is None:
            return
        try:
            question = draw_question(
                self.setting.plan,
                self.setting.parameters,
                sizes,
                name=name,
                seed=self.seed + seed,
                size=size,
                layout=layout,
                masked=masked,
                steps=steps,
                whole=whole,
            )
        except InputError:
            return
        # Rows that the code's own mask leaves nothing to see are nobody's to compute.
        needed = needed and (masked or not question.empty.any())
        yield Probe(question, boundary, needed, dtype)

    def _large(self, name: str, sizes: Sizes, masked: bool, layout: str) -> Iterator[Probe]:
        """Scores whose spread is LARGE, by making what is given larger."""
        for probe in self._one(name, sizes, layout=layout, masked=masked, seed=4):
            spread = float(reference(probe.question)["scaled"].std())
            size = float(np.clip(np.sqrt(LARGE / max(spread, 1e-3)), 1, 1000))
            yield from self._one(
                name,
                sizes,
                layout=layout,
                masked=masked,
                seed=4,
                size=size,
                boundary="large scores",
            )

    def _hiding_nothing(self, length: int) -> Iterator[Probe]:
        spec = self.setting.mask
        if spec is None or spec.means == "bias":
            return
        for probe in self._one("mask hides nothing", Sizes(queries=length), masked=True):
            question = probe.question
            assert question.keep is not None
            yield Probe(self._again(question, keep=np.ones_like(question.keep)))

    def _identical(self, length: int) -> Iterator[Probe]:
        for probe in self._one("identical tokens", Sizes(queries=length)):
            question = probe.question
            same = {
                role: np.broadcast_to(array[..., :1, :], array.shape).copy()
                for role, array in question.given.items()
            }
            again = ask(
                self.setting.plan,
                self.setting.parameters,
                same,
                name=question.name,
                layout=question.layout,
            )
            yield replace(probe, question=again, boundary="identical tokens")

    def _again(
        self, question: Question, *, keep: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    ) -> Question:
        spec = self.setting.mask
        return ask(
            self.setting.plan,
            self.setting.parameters,
            question.given,
            name=question.name,
            layout=question.layout,
            keep=keep,
            left_padded=spec is not None and spec.kind == "keep_pad_left",
        )

    def _length(self) -> int:
        """Longer than the window, so that it shows."""
        window = self.setting.plan.intent.window
        wanted = QUERIES if window is None else max(QUERIES, min(window + 3, 40))
        return self._longest(wanted)

    def _longest(self, wanted: int) -> int:
        """As many tokens as wanted, or as the table of positions has."""
        table = self.setting.parameters.positions
        return wanted if table is None else min(wanted, len(table))

    def _headed(self, layout: str) -> bool:
        return layout in HEADED

    def _square(self) -> Sizes:
        """Batch, heads, tokens and width equal, as far as the plan leaves them open: code that
        confuses axes runs only there."""
        heads = self.setting.heads or 4
        if self.setting.projected:
            return Sizes(batch=heads, queries=heads)
        width = self.setting.plan.intent.head_dim or 4
        return Sizes(batch=width, queries=width, heads=width, width=width)
