"""The screen of `attn run` on a model: one report a layer, then what the model expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from rich.text import Text

from attn_cli.core.findings import SEVERITIES, Finding
from attn_cli.core.model_results import ModelResult, ModelSummary
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import MARKS, findings
from attn_cli.render.terminal.header import header
from attn_cli.render.terminal.names import names
from attn_cli.render.terminal.predictions import prediction_table
from attn_cli.render.terminal.prose import WIDEST, counted, hanging
from attn_cli.render.terminal.run import drawn

NORMS = {"pre": "LayerNorm before attention", "post": "LayerNorm after attention"}


def model_screen(
    result: ModelResult, screen: Screen, *, parts: Collection[str], bits: bool = False
) -> str:
    """The whole screen as text: the parts of `parts` for every layer that is shown."""
    blocks = [header(result.last, screen, first=list(_facts(result.model)))]
    for number, layer in result.layers.items():
        shown = list(drawn(layer, screen, parts=parts, bits=bits))
        if shown:
            blocks += [Text(), heading(f"layer {number}", screen), *shown]
    if "predictions" in parts and result.predictions:
        table = prediction_table(result.predictions, names(result.last, screen), bits=bits)
        blocks += [Text(), heading("predictions", screen), Text(), *table]
    if "findings" in parts:
        said = [*findings(result.said, (), screen), *_elsewhere(result.elsewhere, screen)]
        blocks += [Text(), *said] if said else []
    return screen.render(blocks)


def _facts(model: ModelSummary) -> Iterator[str]:
    yield f"a model of {counted(model.layers, 'layer')}"
    yield f"vocabulary {model.vocabulary:,}"
    if model.norm in NORMS:
        yield NORMS[model.norm]
    if not model.residual:
        yield "no residual"


def heading(words: str, screen: Screen) -> Text:
    """A quiet line across the screen with words near its beginning."""
    line = screen.sign("─")
    width = min(screen.width, WIDEST)
    title = screen.text(words, "bold")
    return Text.assemble(
        (f"{line * 2} ", "dim"), title, (f" {line * (width - title.cell_len - 4)}", "dim")
    )


def _elsewhere(found: Collection[Finding], screen: Screen) -> Iterator[Text]:
    """One line a layer that is not shown and has more than notes to say."""
    grave = [finding for finding in found if finding.severity != "note"]
    for layer in sorted({finding.where.layer or 0 for finding in grave}):
        mine = [finding for finding in grave if (finding.where.layer or 0) == layer]
        codes = ", ".join(dict.fromkeys(finding.code for finding in mine))
        severity = max((f.severity for f in mine), key=SEVERITIES.index)
        sign, style = MARKS[severity]
        counts = Counter(finding.severity for finding in mine)
        kinds = " and ".join(counted(counts[kind], kind) for kind in SEVERITIES if counts[kind])
        words = Text(" ").join(
            [screen.text(sign, style), screen.text(f"layer {layer}, not shown, has {kinds}")]
        )
        yield hanging(words.append("  ").append(codes, "dim"), screen, indent=2)
