"""Holding: a run held against a text run alone, and the first place where they part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.compare import Verdict
from attn_cli.core.model_calls import CallFacts, CallPlace, ModelCoverage
from attn_cli.core.results_model_ways import STAGES, Parting, WayCheck
from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.ways.alone import Alone, Key, rows_first
from attn_cli.models.hf.ways.gaps import Gap, call_gaps, comparable, tensor_gap
from attn_cli.models.hf.ways.spans import Spans

Array = NDArray[Any]
ROTATED = frozenset("qk")  # may be turned together, which the scores do not show


@dataclass(slots=True)
class Holding:
    """Watcher: every stage of a run within the budgets of the text alone.

    `spans` says where this forward holds the text and is set anew for each of several.
    """

    alone: Alone
    spans: Spans
    identical: bool = True
    share: float = 0.0
    max_abs: float = 0.0
    compared: set[Key] = field(default_factory=set)
    left_out: set[Key] = field(default_factory=set)
    first: tuple[tuple[int, int, int], Key, Gap, int, int] | None = None

    def see(self, call: AttentionCall) -> None:
        key = ("call", str(call.facts.place))
        alone = self.alone.record.calls.get(key)
        if alone is None or not comparable(alone, call, self.spans):
            self.left_out.add(key)
            return
        self._hold(key, call_gaps(alone, call, self.spans))

    def layer(self, place: CallPlace, output: Tensor) -> None:
        self._tensor(("layer", str(place)), "layer output", output, place.path)

    def output(self, name: str, output: Tensor) -> None:
        self._tensor(("output", name), "output", output, "decoder")

    def _tensor(self, key: Key, stage: str, seen: Tensor, path: str) -> None:
        """(B, rows, …); an output without rows is of the whole text, and held only where it is."""
        alone, span = self.alone.record.tensors.get(key), self.spans.of(path)
        if alone is None or alone.ndim == 0 or seen.shape[0] != alone.shape[0] * self.spans.batch:
            self.left_out.add(key)
            return
        each = alone.shape[0]
        part = seen[span.item * each : (span.item + 1) * each]
        first = 0
        if span.count is not None and seen.ndim == 3:
            rows, text = span.seen(seen.shape[1]), span.text(seen.shape[1])
            part, alone, first = part[:, rows], alone[:, text], text.start
        if part.shape != alone.shape or (span.count is not None and seen.ndim != 3):
            self.left_out.add(key)
            return
        gap = tensor_gap(stage, rows_first(alone), rows_first(part), first)
        if stage == "output":
            self.max_abs = max(self.max_abs, float(gap.far.max(initial=0.0)))
        self._hold(key, [gap])

    def _hold(self, key: Key, gaps: Iterable[Gap]) -> None:
        """Without a budget (the noisy runs did not get there) nothing can be said."""
        held = [gap for gap in gaps if (key, gap.stage) in self.alone.budgets]
        beyond = {gap.stage for gap in held if self._beyond(key, gap).any()}
        turned = beyond & ROTATED if "scores" not in beyond else frozenset()
        for gap in held:
            self.compared.add(key)
            self.identical &= not gap.far.any()
            if gap.stage in turned:
                continue
            budget = self._budget(key, gap)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = np.where(gap.far > 0, gap.far / budget, 0.0)
            self.share = max(self.share, float(shares.max(initial=0.0)))
            self._note(key, gap)

    def _note(self, key: Key, gap: Gap) -> None:
        """The earliest in the order of the model, then of the formula, then of the text."""
        beyond = self._beyond(key, gap)
        if not beyond.any():
            return
        row = int(beyond.any(0).argmax())
        head = int(np.where(beyond[:, row], gap.far[:, row], -1).argmax())
        rank = (self.alone.record.order[key], STAGES.index(gap.stage), gap.first + row)
        if self.first is None or rank < self.first[0]:
            self.first = rank, key, gap, head, row

    def _beyond(self, key: Key, gap: Gap) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = gap.far > self._budget(key, gap)
        return found

    def _budget(self, key: Key, gap: Gap) -> Array:
        return self.alone.budgets[key, gap.stage][:, None]

    @property
    def verdict(self) -> Verdict:
        if self.first is not None:
            return "different"
        return "identical" if self.identical else "rounding"

    def result(self, name: str, way: str, words: str, *, item: int, seen: Seen) -> WayCheck:
        """What was held, in numbers, and where it parted first."""
        if not self.compared:
            why = "nothing of this run has the axes of the text run alone"
            return WayCheck(name=name, way=way, words=words, verdict=None, why=why)
        return WayCheck(
            name=name,
            way=way,
            words=words,
            verdict=self.verdict,
            share=self.share,
            max_abs=self.max_abs,
            compared=len(self.compared),
            left_out=tuple(sorted(path for _, path in self.left_out - self.compared)),
            parting=None if self.first is None else self._parting(item, seen),
        )

    def _parting(self, item: int, seen: Seen) -> Parting:
        assert self.first is not None
        (_, _, position), key, gap, head, row = self.first
        layer, stack = seen.layer_of(key)
        return Parting(
            where=key[1],
            layer=layer,
            stack=stack,
            stage=gap.stage,
            head=head if key[0] == "call" else None,
            item=item,
            position=position,
            token=seen.token(key, position, gap.stage),
            gap=float(gap.far[head, row]),
            budget=float(self.alone.budgets[key, gap.stage][head]),
            outside=0.0 if gap.outside is None else float(gap.outside[head, row]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a place of a model is called: its layer, and the tokens that it is over."""

    coverage: ModelCoverage
    tokens: tuple[str, ...]
    under: tuple[str, ...]

    def layer_of(self, key: Key) -> tuple[int | None, str | None]:
        """The layer and its stack; None for an output."""
        kind, path = key
        if kind == "call":
            facts = self._facts(key)
            return facts.layer, facts.stack
        if kind == "layer":
            plain, _, turn = path.partition("#")
            mine = [layer for layer in self.coverage.layers if layer.path == plain]
            layer = mine[min(int(turn or 0), len(mine) - 1)]
            return layer.layer, layer.stack
        return None, None

    def token(self, key: Key, position: int, stage: str) -> str | None:
        """The text's token at a position, of the decoder's text where it is the decoder's."""
        decoder = bool(self.under) and ("decoder" in key[1] or key[0] == "output")
        if key[0] == "call" and stage in ("k", "v") and self._facts(key).cross:
            decoder = False
        labels = self.under if decoder else self.tokens
        return labels[position] if position < len(labels) else None

    def _facts(self, key: Key) -> CallFacts:
        return next(facts for facts in self.coverage.calls if str(facts.place) == key[1])
