"""The head of a run's screen: what was read, and with which settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.prose import counted, packed

NO_MASK = "no mask"

if TYPE_CHECKING:
    from attn_cli.core.explanation import Explanation
    from attn_cli.core.results import InputSummary, RunResult
    from attn_cli.core.settings import Settings

    Result = RunResult | Explanation  # both say what was read and how it was computed


def header(result: Result, screen: Screen, *, first: Sequence[str] = ()) -> Text:
    """One or two lines: the source, what is to be said `first`, its sizes, what the run used."""
    source = "standard input" if result.input.source == "-" else result.input.source
    title = screen.text(source, "bold")
    what, settings = result.input, result.settings
    said = (
        *size_words(what, settings),
        *setting_words(what, settings, masked=result.masked),
        *_computing(result),
    )
    facts = [screen.text(fact) for fact in (*first, *said)]
    words = packed(facts, screen, indent=2, first=title.cell_len + 2)
    return Text("  ").join([title, words])


def size_words(what: InputSummary, settings: Settings) -> Iterator[str]:
    """The sizes of an input."""
    if what.kind == "q, k, v":
        yield "q, k, v"
    if what.batch > 1:
        yield f"batch {what.batch}"
    yield from _lengths(what)
    if what.d_model is not None:
        yield f"d_model {what.d_model}"
    yield _heads(what, settings)
    if what.d_v != what.d_k:
        yield f"d_v {what.d_v}"
    if settings.layout != "bhld":
        yield f"layout {settings.layout}"


def setting_words(what: InputSummary, settings: Settings, *, masked: bool) -> Iterator[str]:
    """What a run used beside its defaults; `masked` says whether anything is masked."""
    yield from _layer(what, settings)
    if settings.mask:
        yield f"mask {settings.mask}"
    else:
        yield "mask from the file" if masked else NO_MASK
    if settings.align:
        yield f"align {settings.align}"
    if not math.isclose(settings.scale, 1 / math.sqrt(what.d_k)):
        yield f"scale {settings.scale:.6g}"
    if settings.softcap is not None:
        yield f"softcap {settings.softcap:g}"


def _lengths(what: InputSummary) -> Iterator[str]:
    if what.kind == "q, k, v":
        yield counted(what.queries, "query", "queries")
        yield counted(what.keys, "key")
        return
    noun = "token" if what.tokens else "vector"
    length = counted(what.queries, noun)
    if what.context is None:
        yield length
        return
    yield f"{length} looking at {what.keys:,} of {what.context}"


def _heads(what: InputSummary, settings: Settings) -> str:
    heads = f"{counted(settings.heads, 'head')} of {what.d_k}"
    if settings.kv_heads == settings.heads:
        return heads
    return f"{heads} on {counted(settings.kv_heads, 'key/value head')}"


def _computing(result: Result) -> Iterator[str]:
    """The engine, and what the file brought."""
    settings = result.settings
    device = "" if result.device == "cpu" else f" on {result.device}"
    yield f"engine {result.engine} {result.dtype}{device}"
    if settings.from_file and result.input.kind != "model":  # it brings them all
        yield f"{' and '.join(settings.from_file)} from the file"


def _layer(what: InputSummary, settings: Settings) -> Iterator[str]:
    """Where the projections came from, and which positions there are."""
    if settings.weights is not None:
        own = settings.weights == what.source
        yield "projections from the file" if own else f"projections {settings.weights}"
    if settings.init is not None:
        yield f"projections drawn, {settings.init}, seed {settings.seed}"
    if settings.positions is not None:
        base = "" if settings.rope_base is None else f" base {settings.rope_base:g}"
        yield f"positions {settings.positions}{base}"
