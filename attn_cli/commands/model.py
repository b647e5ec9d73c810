"""attn model: what attention does in a real checkpoint, per layer and head."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

from attn_cli.commands import arguments as a
from attn_cli.commands import model_asking as q
from attn_cli.commands import model_options as m
from attn_cli.commands import model_running as r
from attn_cli.commands import options as o
from attn_cli.commands.listing import show_list
from attn_cli.commands.output import Progress, encoding, say, write
from attn_cli.core.findings import SEVERITIES
from attn_cli.errors import ExitCode, InputError

if TYPE_CHECKING:
    from attn_cli.core.results_model import ModelReport
    from attn_cli.models.hf.options import InputOptions, LoadOptions
    from attn_cli.workflows.model.options import ModelOptions

HELP = (
    "Look into the attention of a real model: which layers were seen, the masks they really used, "
    "what each head does. Needs pip install 'attn-cli\\[hf]'."
)
EXAMPLES = (
    "Examples:",
    "attn model sample_inputs/tiny_gemma2 --random-weights --length 12",
    "attn model sample_inputs/tiny_gemma2 --random-weights --layer 1 --head 2",
    'attn model ./all-MiniLM-L6-v2 --text "The cat sat." --text "It purred." --json',
)
FIGURE = "normalized_entropy"
DRAWN = 16  # tokens, where nobody says what a model of random weights reads
LONGEST_ID = 9  # digits


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""
    app.command("model", help=HELP, epilog="\n\n".join([*EXAMPLES, o.EXIT_CODES]))(model)


def model(
    path: m.Path = None,
    *,
    random_weights: m.RandomWeights = False,
    seed: m.Seed = 0,
    trust_remote_code: m.TrustRemoteCode = False,
    device: m.Device = "cpu",
    dtype: m.Dtype = None,
    device_map: m.DeviceMap = None,
    backend: m.Backend = None,
    text: m.Texts = None,
    text_file: m.TextFile = None,
    tokens: m.Tokens = None,
    input_ids: m.InputIds = None,
    image: m.Image = None,
    length: m.Length = None,
    decoder_text: m.DecoderTexts = None,
    decoder_ids: m.DecoderIds = None,
    layer: m.Layer = None,
    head: o.Head = None,
    query: m.Query = None,
    item: o.Item = None,
    figure: m.Figures = None,
    rows: o.Rows = None,
    bits: o.Bits = False,
    json: o.Json = False,
    known: m.Known = False,
    health: q.Health = False,
    sustained: q.Sustained = None,
    flow: q.Flow = None,
    sensitive: q.Sensitive = None,
    ablate_key: q.AblateKey = None,
    check: r.Check = None,
    diff: r.Diff = None,
    fail_if: q.FailIf = None,
    fail_on: o.FailOn = None,
    prometheus: q.Prometheus = None,
    save: m.Save = None,
    stages: m.Stages = None,
    force: m.Force = False,
) -> int:
    """Parses what was asked for, looks into the model and shows the result."""
    given = dict(locals())
    if known:
        return show_list("heads", json=json)
    figures = _figures(given)
    report = _report(_options(given))
    _present(report, figures, json=json, bits=bits)
    return _exit_code(report, fail_on)


def _figures(given: Mapping[str, Any]) -> tuple[str, ...]:
    """What is drawn of all heads; chosen ones have a line with every figure instead.

    Nothing where a question was asked and no figure was.
    """
    from attn_cli.core.model_heads import MEANS, OTHERS

    text, narrowed = given["figure"], given["layer"] is not None or given["head"] is not None
    if text is None and (q.asked(given) or r.asked(given)):
        return ()
    if text is not None and narrowed:
        raise InputError(
            "--figure draws all heads, and with --layer or --head each has a line of its own",
            hint="leave one of them out",
        )
    return a.names(text or FIGURE, "figure", (*MEANS, *OTHERS))


def _options(given: Mapping[str, Any]) -> ModelOptions:
    """The command's arguments by name as the options of a look into a model."""
    from attn_cli.workflows.model.options import SAVED, ModelOptions

    if given["stages"] is not None and given["save"] is None:
        raise InputError("--stages says what --save writes, and --save is not given")
    if given["save"] is not None and given["save"] == given["prometheus"]:
        raise InputError("--save and --prometheus are one file: expected one for each")
    load = _loading(given)
    return ModelOptions(
        load=load,
        given=_input(given),
        layers=a.indices(given["layer"], "--layer"),
        heads=a.indices(given["head"], "--head"),
        items=a.indices(given["item"], "--item"),
        queries=a.indices(given["query"], "--query"),
        stages=a.names(given["stages"], "stage", SAVED),
        save=given["save"],
        questions=q.questions(given),
        checks=r.checks(given),
        other=r.other(given, load),
        prometheus=given["prometheus"],
        force=given["force"],
        rows_listed=given["json"],
        all_rows=given["rows"] == "all",
    )


def _loading(given: Mapping[str, Any]) -> LoadOptions:
    from attn_cli.models.hf.options import LoadOptions

    if given["path"] is None:
        raise InputError(
            "no PATH was given: expected the folder of a model, or its name on the hub",
            hint="attn model --help shows examples",
        )
    alike = ("random_weights", "seed", "trust_remote_code", "device", "dtype", "device_map")
    return LoadOptions(
        source=given["path"], backend=given["backend"], **{name: given[name] for name in alike}
    )


def _input(given: Mapping[str, Any]) -> InputOptions:
    from attn_cli.models.hf.options import InputOptions

    texts, ids = tuple(given["text"] or ()), _ids(given["input_ids"], "--input-ids")
    nothing = not (texts or ids or given["text_file"] or given["tokens"] or given["image"])
    drawn = given["length"]
    if drawn is None and nothing and given["random_weights"]:
        drawn = DRAWN
    return InputOptions(
        texts=texts,
        text_file=given["text_file"],
        tokens_file=given["tokens"],
        input_ids=ids,
        image=given["image"],
        drawn=drawn,
        seed=given["seed"],
        decoder_texts=tuple(given["decoder_text"] or ()),
        decoder_ids=_ids(given["decoder_ids"], "--decoder-ids"),
    )


def _ids(rows: Sequence[str] | None, option: str) -> tuple[tuple[int, ...], ...]:
    """Rows of token ids, in the order in which they stand."""
    return tuple(
        tuple(_id(part, option) for part in row.replace(",", " ").split()) for row in rows or ()
    )


def _id(part: str, option: str) -> int:
    if not (part.isascii() and part.isdigit() and len(part) <= LONGEST_ID):
        raise InputError(f"{option} has {part!r}: expected token ids such as 101,7592,102")
    return int(part)


def _report(options: ModelOptions) -> ModelReport:
    from attn_cli.workflows.model.report import model as look_into

    progress = Progress()
    try:
        with redirect_stdout(sys.stderr):  # a model's own code may print: stdout is attn's
            return look_into(options, busy=progress.busy)
    finally:
        progress.clear()


def _present(report: ModelReport, figures: Sequence[str], *, json: bool, bits: bool) -> None:
    if json:
        from attn_cli.render.json_text import json_text

        write(json_text(report.to_dict(), encoding()))
    else:
        from attn_cli.render.terminal.console import screen_for
        from attn_cli.render.terminal.model_report import model_report_screen

        write(model_report_screen(report, screen_for(sys.stdout), figures=figures, bits=bits))
    for path in report.saved:
        say(f"Wrote {path}")


def _exit_code(report: ModelReport, fail_on: str | None) -> ExitCode:
    """1 for an alarm, a condition that holds, runs that part, or a finding as severe as `fail_on`.

    3 where checks were asked for and none of them applies.
    """
    severe = () if fail_on is None else SEVERITIES[SEVERITIES.index(fail_on) :]
    found = any(finding.severity in severe for finding in report.findings)
    if found or report.answers.failed or report.runs.failed:
        return ExitCode.DIFFERS
    return ExitCode.UNDECIDED if report.runs.undecided else ExitCode.OK
