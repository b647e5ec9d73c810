"""The head of a run's screen: what was read, and with which settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.prose import counted, packed

if TYPE_CHECKING:
    from attn_cli.core.explanation import Explanation
    from attn_cli.core.results import RunResult

    Result = RunResult | Explanation  # both say what was read and how it was computed


def header(result: Result, screen: Screen, *, first: Sequence[str] = ()) -> Text:
    """One or two lines: the source, what is to be said `first`, its sizes, what the run used."""
    source = "standard input" if result.input.source == "-" else result.input.source
    title = screen.text(source, "bold")
    facts = [screen.text(fact) for fact in (*first, *_sizes(result), *_settings(result))]
    words = packed(facts, screen, indent=2, first=title.cell_len + 2)
    return Text("  ").join([title, words])


def _sizes(result: Result) -> Iterator[str]:
    what, settings = result.input, result.settings
    if what.kind == "q, k, v":
        yield "q, k, v"
    if what.batch > 1:
        yield f"batch {what.batch}"
    yield from _lengths(result)
    if what.d_model is not None:
        yield f"d_model {what.d_model}"
    yield _heads(result)
    if what.d_v != what.d_k:
        yield f"d_v {what.d_v}"
    if settings.layout != "bhld":
        yield f"layout {settings.layout}"


def _lengths(result: Result) -> Iterator[str]:
    what = result.input
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


def _heads(result: Result) -> str:
    settings, d_k = result.settings, result.input.d_k
    heads = f"{counted(settings.heads, 'head')} of {d_k}"
    if settings.kv_heads == settings.heads:
        return heads
    return f"{heads} on {counted(settings.kv_heads, 'key/value head')}"


def _settings(result: Result) -> Iterator[str]:
    settings = result.settings
    yield from _layer(result)
    yield _mask(result)
    if settings.align:
        yield f"align {settings.align}"
    if not math.isclose(settings.scale, 1 / math.sqrt(result.input.d_k)):
        yield f"scale {settings.scale:.6g}"
    if settings.softcap is not None:
        yield f"softcap {settings.softcap:g}"
    device = "" if result.device == "cpu" else f" on {result.device}"
    yield f"engine {result.engine} {result.dtype}{device}"
    if settings.from_file and result.input.kind != "model":  # it brings them all
        yield f"{' and '.join(settings.from_file)} from the file"


def _layer(result: Result) -> Iterator[str]:
    """Where the projections came from, and which positions there are."""
    settings = result.settings
    if settings.weights is not None:
        own = settings.weights == result.input.source
        yield "projections from the file" if own else f"projections {settings.weights}"
    if settings.init is not None:
        yield f"projections drawn, {settings.init}, seed {settings.seed}"
    if settings.positions is not None:
        base = "" if settings.rope_base is None else f" base {settings.rope_base:g}"
        yield f"positions {settings.positions}{base}"


def _mask(result: Result) -> str:
    if result.settings.mask:
        return f"mask {result.settings.mask}"
    masked = any(step.stage == "masked" for step in result.shapes)
    return "mask from the file" if masked else "no mask"
