"""What `attn check grads` is asked about: the default cases, an input, or a model's layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, BinaryIO

from numpy.typing import NDArray

from attn_cli import formats
from attn_cli.core.dump import Dump
from attn_cli.core.engine import Ask
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import InputSummary
from attn_cli.core.results_grads import INPUT
from attn_cli.core.settings import Choices, Settings
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.models.passage import passages
from attn_cli.recognize.one_array import load_array
from attn_cli.recognize.settings import option, resolve
from attn_cli.workflows.check.grads_cases import default_cases, layer_for_norms
from attn_cli.workflows.generated import from_shape
from attn_cli.workflows.model_reading import read_model
from attn_cli.workflows.one_kind import refuse_files, refuse_text
from attn_cli.workflows.run import read_dump
from attn_cli.workflows.selection import checked

Array = NDArray[Any]
OUTPUT = frozenset({"output"})
WRITTEN = {"masks": "a mask (--mask, --causal)"}  # options that are not named as their choice is


@dataclass(frozen=True, slots=True, kw_only=True)
class GradsOptions:
    """What `attn check grads` was asked for; `seed` is of everything that is drawn, 0 unsaid."""

    choices: Choices = field(default_factory=Choices)
    engine: str = "torch"
    seed: int | None = None
    shape: str | None = None
    context: str | None = None
    weights: str | None = None
    text: str | None = None
    layers_shown: tuple[int, ...] | None = None

    @property
    def drawn(self) -> int:
        """The seed that is used."""
        return self.seed or 0


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One case; `checked` and `norms` say whether to check it and to measure its gradients."""

    name: str
    inputs: AttentionInputs
    layer: int | None = None
    checked: bool = True
    norms: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The questions, and what is said of where they come from."""

    questions: tuple[Question, ...]
    input: InputSummary | None = None
    settings: Settings | None = None
    findings: tuple[Finding, ...] = ()


def asked(source: str | None, options: GradsOptions, *, stdin: BinaryIO | None = None) -> Asked:
    """The questions of `source`, of --shape, or the default ones.

    Raises InputError for what cannot be read, and for options that have nothing to act on.
    """
    if source is not None and options.shape is not None:
        raise InputError("INPUT and --shape were both given: expected one of them")
    resolve({}, Choices(seed=options.seed))  # it is drawn from even where no projections are
    if options.shape is not None:
        return _of_shape(options.shape, options)
    if source is None:
        _check_alone(options)
        return _defaults(options.drawn)
    dump = formats.read(source, stdin=stdin)
    if is_model(dump):
        return _of_model(dump, options)
    return _of_dump(dump, options, _drawing(options), stdin)


def _defaults(seed: int) -> Asked:
    cases = [Question(name, inputs, norms=False) for name, inputs in default_cases(seed)]
    name, inputs = layer_for_norms(seed)
    return Asked((*cases, Question(name, inputs, checked=False)))


def _check_alone(options: GradsOptions) -> None:
    """InputError for an option that says something of an input, where there is none."""
    said: Mapping[str, Any] = {
        **{each.name: getattr(options.choices, each.name) for each in fields(Choices)},
        "context": options.context,
        "weights": options.weights,
        "text": options.text,
        "layer": options.layers_shown,
    }
    for name, value in said.items():
        if value not in (None, ()):
            raise InputError(
                f"{WRITTEN.get(name) or option(name)} is for an INPUT or --shape, and neither was "
                "given",
                hint="the default cases have their own sizes, masks and positions",
            )


def _of_shape(shape: str, options: GradsOptions) -> Asked:
    dump, choices = from_shape(shape, options.choices, options.drawn)
    return _of_dump(dump, options, choices, None)


def _drawing(options: GradsOptions) -> Choices:
    """The choices with the seed among them where projections are drawn: it has other uses here."""
    drawing = options.choices.init is not None
    return replace(options.choices, seed=options.seed) if drawing else options.choices


def _of_dump(dump: Dump, options: GradsOptions, choices: Choices, stdin: BinaryIO | None) -> Asked:
    refuse_text(dump, options.text)
    checked("layer", "--layer", options.layers_shown, 1)
    reading = read_dump(
        dump, choices, context=options.context, weights=options.weights, stdin=stdin
    )
    question = Question(INPUT, reading.inputs)
    return Asked((question,), reading.summary, reading.settings, reading.findings)


def _of_model(dump: Dump, options: GradsOptions) -> Asked:
    """Each layer with the vectors that the layers before it make of the text, in float64."""
    refuse_files(context=options.context, weights=options.weights)
    reading = read_model(dump, options.choices, options.text)
    shown = checked("layer", "--layer", options.layers_shown, reading.model.config.layers)
    questions: list[Question] = []

    def attend(number: int, inputs: AttentionInputs) -> Trace:
        if number in shown:
            questions.append(Question(f"layer {number}", inputs, layer=number))
        return ENGINES["numpy"].run(inputs, Ask(keep=OUTPUT))

    for _ in passages(
        reading.model,
        reading.words,
        dtype="float64",
        attend=attend,
        output=lambda trace: trace["output"],
        load=load_array,
        last=shown[-1],
    ):
        pass  # attend keeps what is wanted
    return Asked(tuple(questions), reading.summary, reading.settings, reading.findings)
