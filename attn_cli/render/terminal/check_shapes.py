"""The screen of `attn check shapes`: the trace with its costs, their sums, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.checkpoint import Checkpoint
from attn_cli.core.findings import Finding, Severity
from attn_cli.core.geometry import Geometry
from attn_cli.core.memory import size
from attn_cli.core.problems import Problem
from attn_cli.core.results_shapes import LayerShapes, ShapesResult, totals_dict
from attn_cli.core.spans import spans
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.shapes import axis_columns, folded, width_cell
from attn_cli.render.terminal.table import Column, Layout, table

MASKING = ("mask", "alignment")  # problems of a mask that does not lie over the scores
GROUPS = 8  # kinds of layers whose traces are drawn
PROBLEMS = 30  # that are written out
SEVERITIES: dict[str, Severity] = {"error": "error", "warning": "warning"}
PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")


def shapes_screen(result: ShapesResult, screen: Screen) -> str:
    """The whole screen as text."""
    blocks = [[_header(result, screen)]]
    blocks += [list(_group(result, group, screen)) for group in result.groups[:GROUPS]]
    if len(result.groups) > GROUPS:
        more = len(result.groups) - GROUPS
        blocks.append([screen.text(f"{counted(more, 'more kind')} of layers: --json", "dim")])
    blocks += [list(_over_all(result, screen)), list(_found(result, screen))]
    return screen.render(line for line in _spaced([block for block in blocks if block]))


def _spaced(blocks: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for place, block in enumerate(blocks):
        yield from [Text(), *block] if place else block


def _header(result: ShapesResult, screen: Screen) -> Text:
    """What was looked at, and with which sizes."""
    title = screen.text("standard input" if result.source == "-" else result.source, "bold")
    facts: list[str] = []
    if result.checkpoint is not None:
        facts += _checkpoint(result.checkpoint)
    elif result.kind == "model":
        facts.append(f"a model of {counted(len(result.layers), 'layer')}")
    if result.groups:
        facts += _sizes(result.groups[0], alone=result.kind in ("sizes", "file"))
    words = packed(
        [screen.text(fact) for fact in facts], screen, indent=2, first=title.cell_len + 2
    )
    return Text("  ").join([title, words]) if facts else title


def _checkpoint(found: Checkpoint) -> Iterator[str]:
    yield found.model_type
    if found.architecture:
        yield found.architecture
    if not found.tensors:
        yield "no tensors"
        return
    yield f"{counted(found.tensors, 'tensor')} in {counted(found.files, 'file')}"
    yield f"{found.parameters:,} parameters, {size(found.bytes)}"


def _sizes(group: LayerShapes, *, alone: bool) -> Iterator[str]:
    sizes = group.sizes
    yield f"batch {sizes.batch}"
    yield counted(sizes.queries, "query", "queries")
    yield counted(sizes.keys, "key")
    yield sizes.dtype
    if alone and group.geometry is not None:
        yield from _geometry(group.geometry)
        if sizes.mask is not None:
            yield f"mask {sizes.mask}"
        elif any(row.step.stage == "masked" for row in group.rows):
            yield "mask from the file"
        if sizes.align is not None:
            yield f"align {sizes.align}"


def _geometry(layer: Geometry) -> Iterator[str]:
    """A layer in a few words."""
    if layer.d_model is not None:
        yield f"d_model {layer.d_model}"
    heads = f"{counted(layer.heads, 'head')} of {layer.d_k}"
    grouped = layer.kv_heads != layer.heads
    yield f"{heads} on {counted(layer.kv_heads, 'key/value head')}" if grouped else heads
    if layer.d_v != layer.d_k:
        yield f"d_v {layer.d_v}"
    if layer.latent is not None:
        yield f"latent vectors of {layer.latent.kv_rank} + {layer.latent.d_rope} for k and v"
    if layer.cross:
        yield "another sequence's keys"
    if layer.positions is not None:
        yield layer.positions
    if layer.softcap is not None:
        yield f"softcap {layer.softcap:g}"
    if layer.sinks:
        yield "sinks"


def _group(result: ShapesResult, group: LayerShapes, screen: Screen) -> Iterator[Text]:
    """The trace of one kind of layers, and what follows from it."""
    if result.kind in ("model", "checkpoint"):
        yield _layers(result, group, screen)
    if not group.rows:
        return
    yield _trace(group, screen)
    yield Text()
    misfit = any(problem.code in MASKING for problem in result.errors)
    yield from _facts(group, screen, misfit=misfit)


def _layers(result: ShapesResult, group: LayerShapes, screen: Screen) -> Text:
    """Which layers they are: their numbers in their stack, and what they are made of."""
    first = result.layers[group.layers[0]]
    numbers = [result.layers[place].index for place in group.layers]
    noun = "layer" if len(numbers) == 1 else "layers"
    title = screen.text(f"{first.stack} {noun} {spans(numbers)}".strip(), "bold")
    facts = [] if group.geometry is None else list(_geometry(group.geometry))
    if first.kind != "softmax":
        facts.insert(0, f"{first.says}: no softmax attention, so there are no scores")
    elif group.sizes.mask is not None:
        facts.append(f"mask {group.sizes.mask}")
    said = [screen.text(fact) for fact in facts]
    return Text("  ").join([title, packed(said, screen, indent=2, first=title.cell_len + 2)])


def _trace(group: LayerShapes, screen: Screen) -> Text:
    """One line a stage with its bytes and operations, and the sums below."""
    steps = [row.step for row in group.rows]
    sums = list(_sums(group))
    below = [Text()] * len(sums)
    columns = [
        Column(
            "stage",
            [
                screen.text(name, "bold")
                for name in [s.stage for s in steps] + [n for n, *_ in sums]
            ],
            "left",
        ),
        Column("how", [screen.text(step.formula) for step in steps] + below, "left"),
        *(Column(axis.title, [*axis.cells, *below]) for axis in axis_columns(steps)),
        Column("width", [*(width_cell(step.stage, step) for step in steps), *below], "left"),
        Column(
            "bytes", [Text(size(row.cost.bytes)) for row in group.rows] + [b for _, b, _ in sums]
        ),
        Column(
            "FLOPs", [Text(_short(row.cost.flops)) for row in group.rows] + [f for *_, f in sums]
        ),
    ]
    without = [column for column in columns if column.title != "batch"]  # the header says it
    bare = [column for column in without if column.title != "how"]
    narrow = [Layout(folded(some, screen.width, gap=2), gap=2) for some in (columns, without)]
    return table([Layout(columns, gap=3), Layout(columns, gap=2), *narrow, Layout(bare)], screen)


def _sums(group: LayerShapes) -> Iterator[tuple[str, Text, Text]]:
    cost = group.cost
    yield "total", Text(size(cost.bytes), "bold"), Text(_short(cost.flops), "bold")
    if cost.masked_bytes is None or cost.masked_flops is None or group.visible == group.pairs:
        return
    yield "visible", Text(size(cost.masked_bytes)), Text(_short(cost.masked_flops))


def _facts(group: LayerShapes, screen: Screen, *, misfit: bool) -> Iterator[Text]:
    for name, words in _said(group, misfit=misfit):
        label = screen.text(f"{name:<16}")
        yield label.append_text(hanging(screen.text(words), screen, indent=label.cell_len))


def _said(group: LayerShapes, *, misfit: bool) -> Iterator[tuple[str, str]]:
    """What the costs mean: the mask's share, twice the length, the wall, projections, the cache."""
    if not group.sizes.mask_read:
        yield "visible", "not known: what hides keys are numbers of the file, which are not read"
    elif group.visible is None:
        why = "the mask does not fit" if misfit else "that would take too long"
        yield "visible", f"not counted: {why}"
    elif group.visible != group.pairs:
        share = f"{100 * group.visible / group.pairs:.3g}%"
        yield "visible", f"{group.visible:,} of {group.pairs:,} pairs, {share}"
    yield "twice the keys" if group.sizes.cached else "twice as long", _growth(group)
    if group.wall is not None:
        yield "memory wall", _wall(group)
    if group.parameters:
        yield "projections", f"{group.parameters:,} parameters"
    if group.cache:
        yield "KV cache", _cache(group)


def _growth(group: LayerShapes) -> str:
    """By how much everything grows, in all and stage by stage."""
    now, then = group.cost, group.doubled
    words = f"FLOPs × {_factor(then.flops, now.flops)}, bytes × {_factor(then.bytes, now.bytes)}"
    if now.masked_flops and then.masked_flops is not None and group.visible != group.pairs:
        words += f", visible FLOPs × {_factor(then.masked_flops, now.masked_flops)}"
    alike: dict[str, list[str]] = {}
    for row in group.rows:
        alike.setdefault(_factor(row.doubled.bytes, row.cost.bytes), []).append(row.step.stage)
    each = "; ".join(f"× {factor}: {', '.join(names)}" for factor, names in alike.items())
    return f"{words} ({each})" if len(alike) > 1 else words


def _wall(group: LayerShapes) -> str:
    wall = group.wall
    assert wall is not None
    many = len(wall.stages) > 1
    words = f"{_listed(wall.stages)} hold{'' if many else 's'} the most, {size(wall.bytes)}"
    words += " each" if many else ""
    if wall.takes_over is None:
        return f"{words}; the scores never do, however many keys"
    length = wall.takes_over
    what = f"a length of {length:,}" if wall.varies == "length" else counted(length, "key")
    if "scores" in wall.stages:
        return f"{words}, as from {what} on"
    return f"{words}; from {what} on the scores do"


def _cache(group: LayerShapes) -> str:
    sizes = group.sizes
    held = group.cache * group.cached * sizes.batch
    tokens = f"{counted(group.cached, 'token')}"
    tokens += f" × batch {sizes.batch}" if sizes.batch > 1 else ""
    reach = "" if group.cached == sizes.keys else ", all that is seen"
    return f"{size(group.cache)} a token; {size(held)} for {tokens}{reach}"


def _over_all(result: ShapesResult, screen: Screen) -> Iterator[Text]:
    """The sums over all layers, where there are several."""
    traced = result.traced
    count = sum(len(group.layers) for group in traced)
    if count < 2:
        return
    totals = totals_dict(traced)
    facts = [f"{_short(totals['flops'])} FLOPs", size(totals["bytes"])]
    if totals["masked_flops"] is not None and totals["masked_flops"] != totals["flops"]:
        visible = f"{_short(totals['masked_flops'])} FLOPs, {size(totals['masked_bytes'])}"
        facts.append(f"of visible pairs {visible}")
    facts.append(f"{totals['parameters']:,} parameters of attention")
    if totals["kv_cache_bytes"]:
        each, held = totals["kv_cache_bytes_per_token"], totals["kv_cache_bytes"]
        facts.append(f"KV cache {size(each)} a token, {size(held)} in all")
    crossed = any(group.geometry and group.geometry.cross for group in traced)
    what = "attentions, cross-attention too" if crossed else "attention layers"
    title = screen.text(f"all {count} {what}", "bold")
    said = [screen.text(fact) for fact in facts]
    yield Text("  ").join([title, packed(said, screen, indent=2, first=title.cell_len + 2)])


def _found(result: ShapesResult, screen: Screen) -> Iterator[Text]:
    """What was chosen in reading, what was looked at, and every problem; the gravest last."""
    notes = [Finding("read", "note", words) for words in result.says]
    if result.coverage:
        notes.append(Finding("coverage", "note", result.coverage))
    alike: dict[tuple[str, str, str], list[Problem]] = {}
    for problem in result.problems:
        words = problem.message.replace(problem.layer or "\0", "")  # the same of each layer
        alike.setdefault((problem.severity, problem.code, words), []).append(problem)
    said = [_finding(problems) for problems in list(alike.values())[:PROBLEMS]]
    if len(alike) > PROBLEMS:
        more = f"{len(alike) - PROBLEMS} more problems: --json lists them"
        notes.append(Finding("more-problems", "note", more))
    fine = [] if result.errors or not result.decided else ["the shapes fit together"]
    yield from findings([*notes, *said], fine, screen)


def _finding(problems: Sequence[Problem]) -> Finding:
    """The same said of one layer or of many, behind the first of the places that it is said of."""
    first = problems[0]
    place = first.layer or first.tensor
    words = first.message
    if place is not None and place not in words:
        words = f"{place}: {words}"
    if len(problems) > 1:
        words += f" (and {counted(len(problems) - 1, 'more layer')})"
    return Finding(first.code, SEVERITIES[first.severity], words)


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _factor(after: int, before: int) -> str:
    return f"{after / before:.3g}" if before else "1"


def _short(count: int) -> str:
    """A count with three digits and a prefix; whole below a million.

    >>> _short(999_999), _short(1_234_567), _short(2 * 10**15)
    ('999,999', '1.23 M', '2.00 P')
    """
    if count < 10**6:
        return f"{count:,}"
    value, place = float(count), 0
    while value >= 999.5 and place < len(PREFIXES) - 1:
        value, place = value / 1000, place + 1
    return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {PREFIXES[place]}"
