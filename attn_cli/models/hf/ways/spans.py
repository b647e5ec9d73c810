"""Spans: where a run has the tokens of one text, to be held against that text alone."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.model_calls import CallFacts


@dataclass(frozen=True, slots=True)
class Span:
    """Positions `at` … of batch item `item` are the tokens `first` … of the text, `count` of them.

    `count` None: the whole axis, as it is.
    """

    item: int = 0
    at: int = 0
    first: int = 0
    count: int | None = None

    def seen(self, size: int) -> slice:
        """The positions in an axis of that size of the run."""
        return slice(self.at, self.at + self._count(size))

    def text(self, size: int) -> slice:
        """The tokens of the text that they are, for an axis of that size of the run."""
        return slice(self.first, self.first + self._count(size))

    def _count(self, size: int) -> int:
        return size - self.at if self.count is None else self.count


@dataclass(frozen=True, slots=True)
class Spans:
    """The span of the sequence that a model reads, and that of an encoder-decoder's decoder.

    `batch` is how many items the run has.
    """

    main: Span
    under: Span | None = None
    batch: int = 1

    def of(self, path: str) -> Span:
        """The span of what runs at a path."""
        return self.under if self.under is not None and "decoder" in path else self.main


@dataclass(frozen=True, slots=True)
class Keys:
    """Which keys of a run's call (`seen`) are which tokens of the text (`text`)."""

    seen: slice
    text: slice


def keys_of(spans: Spans, facts: CallFacts) -> Keys:
    """The keys of a call of the run that are tokens of the text.

    A cache holds the tokens before, or the last of them where a window lets it drop the others: the
    last query's own key is the last one.
    """
    if facts.cross:
        return Keys(spans.main.seen(facts.keys), spans.main.text(facts.keys))
    span = spans.of(facts.place.path)
    text = span.text(facts.queries)
    before = facts.keys - facts.queries  # keys of a cache
    start = max(0, span.first - span.at - before)
    at = span.at + before + start - span.first
    return Keys(slice(at, at + text.stop - start), slice(start, text.stop))
