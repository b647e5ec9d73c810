"""attn run: attention on an input, step by step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import options as o
from attn_cli.commands.listing import show_list
from attn_cli.commands.output import Progress, encoding, say, write
from attn_cli.commands.progress import Bar
from attn_cli.commands.ranks import not_shared
from attn_cli.core.findings import SEVERITIES
from attn_cli.core.ranks import Place, place
from attn_cli.errors import ExitCode, InputError

if TYPE_CHECKING:
    from attn_cli.core.model_results import ModelResult
    from attn_cli.core.results import RunResult
    from attn_cli.workflows.run import RunOptions

HELP = "Run attention on an input, step by step: shapes, weights, row sums, entropy, findings."
EXAMPLES = (
    "Examples:",
    "attn run sample_inputs/apple.json",
    'attn run sample_inputs/sentence.csv --mask "window(3, both)" --show weights',
    "attn run sample_inputs/three_tokens.json --values weights,output --json",
    'attn run sample_inputs/induction.safetensors --text "a b c a" --layer 1',
)


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""
    app.command("run", help=HELP, epilog="\n\n".join([*EXAMPLES, o.EXIT_CODES]))(run)


def run(
    source: o.Input = None,
    *,
    text: o.Text = None,
    context: o.Context = None,
    heads: o.Heads = None,
    kv_heads: o.KvHeads = None,
    layout: o.LayoutOption = None,
    mask_means: o.MaskMeansOption = None,
    mask_axes: o.MaskAxes = None,
    weights: o.Weights = None,
    weights_layout: o.WeightsLayoutOption = None,
    init: o.InitOption = None,
    seed: o.Seed = None,
    d_k: o.DK = None,
    d_v: o.DV = None,
    positions: o.PositionsOption = None,
    rope_base: o.RopeBase = None,
    relative_bidirectional: o.RelativeBidirectional = None,
    max_distance: o.MaxDistance = None,
    mask: o.Masks = None,
    causal: o.Causal = False,
    align: o.AlignOption = None,
    scale: o.ScaleOption = None,
    softcap: o.Softcap = None,
    engine: o.Engine = "numpy",
    block: o.Block = None,
    dtype: o.Dtype = "float64",
    device: o.Device = "cpu",
    show: o.Show = None,
    values: o.Values = None,
    layer: o.LayerOption = None,
    head: o.Head = None,
    query: o.Query = None,
    item: o.Item = None,
    rows: o.Rows = None,
    bits: o.Bits = False,
    json: o.Json = False,
    known: o.Known = None,
    fail_on: o.FailOn = None,
    save: o.Save = None,
    force: o.Force = False,
) -> int:
    """Parses what was asked for, runs it and shows the result."""
    given = dict(locals())
    if known is not None:
        return show_list(known, json=json)
    result = _result(source, options := _options(given))
    _present(result, options, json=json, bits=bits)
    return _exit_code(result, fail_on)


def _options(given: Mapping[str, Any]) -> RunOptions:
    """The command's arguments by name as the options of a run."""
    from attn_cli.workflows.run import RunOptions

    alike = ("engine", "block", "dtype", "device", "context", "weights", "text", "save", "force")
    options = RunOptions(
        choices=a.choices(given),
        layers_shown=a.indices(given["layer"], "--layer"),
        heads_shown=a.indices(given["head"], "--head"),
        queries_shown=a.indices(given["query"], "--query"),
        items_shown=a.indices(given["item"], "--item"),
        all_rows=given["rows"] == "all",
        **{name: given[name] for name in alike},
    )
    return _with_parts(options, given["show"], given["values"], json=given["json"])


def _with_parts(
    options: RunOptions, show: str | None, values: str | None, *, json: bool
) -> RunOptions:
    """What is to be made: JSON has every part, the screen those of --show, --values its numbers."""
    from attn_cli.core.trace import EVERY_STAGE
    from attn_cli.workflows.run import DEFAULT_PARTS, PARTS

    stages = a.names(values, "stage", EVERY_STAGE)
    parts = frozenset(a.names(show, "part", PARTS)) if show is not None else DEFAULT_PARTS
    if "values" in parts and not stages:
        raise InputError(
            "--show values needs to know of which stages",
            hint="for example --values weights,output",
        )
    parts |= {"values"} if stages else set()
    return replace(options, values=stages, parts=frozenset({"json"}) if json else parts)


def _result(source: str | None, options: RunOptions) -> RunResult | ModelResult:
    from attn_cli.workflows.room import in_tiles
    from attn_cli.workflows.run import run_file

    if source is None:
        raise InputError(
            "no INPUT was given: expected a file of token vectors, of q, k and v, or a model",
            hint="attn run --help shows examples",
        )
    progress = Bar() if in_tiles(options.engine) else Progress()
    here = place()
    try:
        if not here.shared:
            return run_file(source, options, stdin=sys.stdin.buffer, progress=progress)
        _check_shared(here, options.engine, source)
        from attn_cli.torch_ranks import connected

        with connected(here, options.device) as ranks:
            return run_file(source, replace(options, ranks=ranks), progress=progress)
    except KeyboardInterrupt:
        if isinstance(progress, Bar):
            progress.interrupted()
        raise
    finally:
        progress.clear()


def _check_shared(here: Place, engine: str, source: str) -> None:
    """UnsupportedError where the processes that torchrun started have nothing to share."""
    from attn_cli.workflows.room import IN_TILES, in_tiles

    if not in_tiles(engine):
        raise not_shared(here, f"and engine {engine} computes in one", f"use --engine {IN_TILES}")
    if source == "-":
        raise not_shared(here, "and only one can read standard input", "give a file")


def _present(
    result: RunResult | ModelResult, options: RunOptions, *, json: bool, bits: bool
) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(result.to_dict(), encoding()))
    else:
        write(_screen(result, options, bits=bits))
    if options.save is not None:
        say(f"Wrote {options.save}")


def _screen(result: RunResult | ModelResult, options: RunOptions, *, bits: bool) -> str:
    from attn_cli.core.results import RunResult
    from attn_cli.render.terminal.console import screen_for

    screen = screen_for(sys.stdout)
    if isinstance(result, RunResult):
        from attn_cli.render.terminal.run import run_screen

        return run_screen(result, screen, parts=options.parts, bits=bits)
    from attn_cli.render.terminal.model import model_screen

    return model_screen(result, screen, parts=options.parts, bits=bits)


def _exit_code(result: RunResult | ModelResult, fail_on: str | None) -> ExitCode:
    """1 where a finding is as severe as `fail_on` or more so."""
    if fail_on is None:
        return ExitCode.OK
    severe = SEVERITIES[SEVERITIES.index(fail_on) :]
    found = any(finding.severity in severe for finding in result.findings)
    return ExitCode.DIFFERS if found else ExitCode.OK
