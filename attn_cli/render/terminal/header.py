"""The head of a run's screen: what was read, and with which settings."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.text import Text

from attn_cli.core.results import RunResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.prose import counted, packed


def header(result: RunResult, screen: Screen) -> Text:
    """One or two lines: the source, its sizes, what the run used."""
    source = "standard input" if result.input.source == "-" else result.input.source
    title = screen.text(source, "bold")
    facts = [screen.text(fact) for fact in (*_sizes(result), *_settings(result))]
    first = title.cell_len + 2
    return Text("  ").join([title, packed(facts, screen, indent=2, first=first)])


def _sizes(result: RunResult) -> Iterator[str]:
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


def _lengths(result: RunResult) -> Iterator[str]:
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


def _heads(result: RunResult) -> str:
    settings, d_k = result.settings, result.input.d_k
    heads = f"{counted(settings.heads, 'head')} of {d_k}"
    if settings.kv_heads == settings.heads:
        return heads
    return f"{heads} on {counted(settings.kv_heads, 'key/value head')}"


def _settings(result: RunResult) -> Iterator[str]:
    settings = result.settings
    yield _mask(result)
    if settings.align:
        yield f"align {settings.align}"
    if not math.isclose(settings.scale, 1 / math.sqrt(result.input.d_k)):
        yield f"scale {settings.scale:.6g}"
    if settings.softcap is not None:
        yield f"softcap {settings.softcap:g}"
    device = "" if result.device == "cpu" else f" on {result.device}"
    yield f"engine {result.engine} {result.dtype}{device}"
    if settings.from_file:
        yield f"{' and '.join(settings.from_file)} from the file"


def _mask(result: RunResult) -> str:
    if result.settings.mask:
        return f"mask {result.settings.mask}"
    masked = any(step.stage == "masked" for step in result.shapes)
    return "mask from the file" if masked else "no mask"
