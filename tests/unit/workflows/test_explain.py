"""A row on paper: every step follows from what is shown, and the results are the engine's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.explanation import Explanation
from attn_cli.core.settings import Choices
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.positions.alibi import Alibi, slopes
from attn_cli.positions.rope import Rope
from attn_cli.recognize.reading import Reading
from attn_cli.workflows.explain import ExplainOptions, explain_file, explain_reading
from tests.unit.workflows.layers import Layer, heads_of
from tests.unit.workflows.linking import linked
from tests.unit.workflows.recomputing import recompute

SAMPLES = Path(__file__).parents[3] / "sample_inputs"
WEIGHTS = "layer.npz"  # projections alone, which go with another file
FILES = sorted(p.name for p in SAMPLES.iterdir() if p.suffix in {".json", ".csv", ".npz"})
FILES.remove(WEIGHTS)
THREE = str(SAMPLES / "three_tokens.json")
Fields = dict[str, Any]

LAYERS = {
    "plain": Layer(),
    "one head": Layer(heads=1, kv_heads=1),
    "no output projection": Layer(out=None, bias=False),
    "shared keys": Layer(heads=4, kv_heads=2),
    "context": Layer(keys=6, encoding=True),
    "positions": Layer(encoding=True),
    "rope half": Layer(extras={"rotation": Rope("half")}),
    "rope interleaved": Layer(extras={"rotation": Rope("interleaved", 100.0)}),
    "alibi": Layer(extras={"position_bias": Alibi(slopes(2))}),
    "softcap": Layer(extras={"softcap": 2.5}),
    "given scale": Layer(extras={"scale": 0.3}),
    "no scale": Layer(extras={"scale": 1.0}),
    "sinks": Layer(extras={"sinks": np.array([0.5, -3.0])}),
    "bias": Layer(extras={"bias": np.random.default_rng(1).normal(size=(4, 4))}),
    "causal": Layer(mask="causal"),
    "finite fill": Layer(extras={"additive": np.triu(np.full((4, 4), -1e9), 1)}),
    "wide": Layer(tokens=30, d_model=40, d_k=32, d_v=20, out=50),
    "all of it": Layer(
        tokens=20,
        encoding=True,
        kv_heads=1,
        mask="causal",
        extras={
            "rotation": Rope(),
            "position_bias": Alibi(slopes(2)),
            "softcap": 5.0,
            "sinks": np.array([0.25, 1.5]),
        },
    ),
}


def fields(result: Explanation) -> Fields:
    """The JSON of a result, as a program reads it."""
    read: Fields = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    return read


def step(result: Explanation, stage: str, head: int | None = 0) -> Fields:
    (found,) = (
        one for one in fields(result)["steps"] if one["stage"] == stage and one["head"] == head
    )
    return dict(found)


def results(result: Explanation, stage: str, head: int | None = 0) -> list[str]:
    return [line["result"] for line in step(result, stage, head)["lines"]]


def explained(reading: Reading, query: int = 0, **options: Any) -> Explanation:
    return explain_reading(reading, ExplainOptions(query=query, **options))


def assert_right(result: Explanation, reading: Reading) -> None:
    """Every step follows from those above it, and weights and output are the engine's."""
    assert recompute(fields(result)) > 0
    linked(fields(result))
    assert result.agrees
    keep = frozenset({"weights", "context", "output"})
    trace = ENGINES["numpy"].run(reading.inputs, Ask(keep=keep))
    at = (result.item, slice(None), result.query)
    for one in result.steps:
        if one.head is not None and one.stage in ("weights", "context"):
            _assert_shown(one, trace[one.stage][at][one.head], result)
    output = trace["output"]
    for one in result.steps:
        if one.stage == "output":
            row = output[result.item, result.query] if one.head is None else output[at][one.head]
            _assert_shown(one, row, result)


def _assert_shown(one: Any, row: Any, result: Explanation) -> None:
    digits = {"weights": result.digits.weights, "context": result.digits.context}
    allowed = 0.5 * 10.0 ** -digits.get(one.stage, result.digits.output)
    if one.stage == "context" and result.digits.context > result.digits.output:
        allowed *= 40  # it is yet to be projected, and has only to be as right as the output needs
    for line in one.lines:
        if line.index is not None:
            np.testing.assert_allclose(
                float(line.result), row[line.index], rtol=1e-14, atol=allowed * 1.000001
            )


def rows_of(name: str) -> Iterator[tuple[Explanation, Reading]]:
    from attn_cli import formats
    from attn_cli.workflows.run import read_dump

    choices = Choices(masks=("causal",), align="lower-right") if name == "decode.npz" else Choices()
    reading = read_dump(formats.read(str(SAMPLES / name)), choices)
    for item in range(reading.summary.batch):
        for query in range(reading.summary.queries):
            yield explained(reading, query, item=item), reading


@pytest.mark.parametrize("name", FILES)
def test_every_row_of_every_sample_can_be_followed(name: str) -> None:
    for result, reading in rows_of(name):
        assert_right(result, reading)


def test_a_row_through_the_projections_of_a_file_can_be_followed() -> None:
    weights = str(SAMPLES / WEIGHTS)
    choices = Choices(positions="rope")
    options = ExplainOptions(query=1, choices=choices, weights=weights)
    result = explain_file(str(SAMPLES / "apple.json"), options)
    assert recompute(fields(result)) > 0
    linked(fields(result))
    assert result.agrees
    stages = {one.stage for one in result.steps}
    assert {"q", "k", "v", "angle", "q_rotated", "masked", "merged", "output"} <= stages


@pytest.mark.parametrize("name", LAYERS)
def test_every_step_of_a_layer_can_be_followed(name: str) -> None:
    reading = LAYERS[name].reading
    for query in (0, reading.summary.queries - 1):
        assert_right(explained(reading, query), reading)


@pytest.mark.parametrize("terms", [1, 5, 1000])
def test_as_many_terms_as_asked_for_can_be_followed(terms: int) -> None:
    for name in ("wide", "all of it"):
        reading = LAYERS[name].reading
        result = explained(reading, 9, terms=terms, heads=(1,))
        assert_right(result, reading)
        scores = step(result, "scores", 1)
        width = reading.inputs.q.shape[-1]
        assert {len(line["terms"]) for line in scores["lines"]} == {min(terms, width)}
        assert len(scores["lines"]) == min(terms, 30 if name == "wide" else 10)


def test_a_wrong_digit_is_found() -> None:
    good = fields(explain_file(THREE, ExplainOptions(query=0)))
    for stage in ("scores", "scaled", "exp", "sum", "weights", "context"):
        spoilt = json.loads(json.dumps(good))
        (one,) = (s for s in spoilt["steps"] if s["stage"] == stage)
        one["lines"][-1]["result"] = "0.31337"
        with pytest.raises(AssertionError):
            recompute(spoilt)
    spoilt = json.loads(json.dumps(good))
    (one,) = (s for s in spoilt["steps"] if s["stage"] == "context")
    one["lines"][0]["terms"][0]["a"] = "0.50649"
    with pytest.raises(AssertionError):
        linked(spoilt)


def test_three_tokens_by_pocket_calculator() -> None:
    """softmax(2/2, 0/2, 1/2): e^-1 = 0.36788, e^-0.5 = 0.60653, as any table has them."""
    result = explain_file(THREE, ExplainOptions(query=0))
    assert results(result, "scores") == ["2", "0", "1"]
    assert results(result, "scale") == ["2"]
    assert results(result, "scaled") == ["1", "0", "0.5"]
    assert results(result, "maximum") == ["1"]
    assert results(result, "shifted") == ["0", "-1", "-0.5"]
    assert results(result, "exp") == ["1", "0.36788", "0.60653"]
    assert results(result, "sum") == ["1.97441"]
    assert results(result, "weights") == ["0.50648", "0.18632", "0.30720"]
    assert results(result, "row_sum") == ["1.00000"]
    assert results(result, "output", None) == ["0.81368", "0.49352", "0.50648", "0.18632"]
    assert result.digits.to_dict() == dict.fromkeys(result.digits.to_dict(), 5)


def test_long_rows_show_the_heaviest_keys_and_the_rest_as_one() -> None:
    rng = np.random.default_rng(3)
    q, k, v = rng.normal(size=(1, 64)), rng.normal(size=(300, 64)), rng.normal(size=(300, 2))
    reading = heads_of(q, k, v)
    result = explained(reading)
    assert_right(result, reading)
    weights = step(result, "weights")["lines"]
    trace = ENGINES["numpy"].run(reading.inputs, Ask(keep=frozenset({"weights"})))
    heaviest = np.argsort(-trace["weights"][0, 0, 0])[:8]
    assert [line["index"] for line in weights[:-1]] == sorted(heaviest.tolist())
    assert weights[-1]["label"] == "others"
    (total,) = step(result, "sum")["lines"]
    assert total["rest"]["terms"] == 292
    shown = sum((Decimal(line["result"]) for line in weights), Decimal(0))
    assert abs(shown - 1) < Decimal("1e-4")


def test_hidden_keys_are_named_and_take_no_part() -> None:
    reading = LAYERS["causal"].reading
    result = explained(reading, 1)
    hidden = [one for one in fields(result)["steps"] if one["operation"] == "hide"]
    assert [one["hidden"] for one in hidden] == [[2, 3], [2, 3]]
    assert [line["index"] for line in step(result, "scores")["lines"]] == [0, 1]


def test_a_row_that_sees_one_key_gives_it_all() -> None:
    result = explained(LAYERS["causal"].reading, 0)
    assert results(result, "exp") == ["1"]
    assert results(result, "weights") == ["1"]


def test_an_empty_row_has_no_arithmetic_and_output_0() -> None:
    result = explain_file(str(SAMPLES / "empty_row.json"), ExplainOptions(query=1))
    stages = [one.stage for one in result.steps]
    assert "scores" not in stages
    assert "weights" not in stages
    assert results(result, "context") == ["0", "0", "0", "0"]
    assert results(result, "output", None) == ["0", "0", "0", "0"]
    assert "empty-row" in [finding.code for finding in result.findings]


def test_an_empty_row_is_projected_to_the_bias() -> None:
    layer = Layer(mask="causal & ~causal")
    result = explained(layer.reading, 2)
    bias = layer.reading.inputs.output_projection
    assert bias is not None
    assert bias.b_o is not None
    np.testing.assert_allclose(
        [float(text) for text in results(result, "output", None)], bias.b_o, atol=5.1e-6
    )


@pytest.mark.parametrize(
    "q, k, v, stage, shown",
    [
        ([[1, 1]], [[1, 0], [math.nan, 2]], [[1], [2]], "scores", ["1", None]),
        ([[1, 1]], [[1, 0], [math.inf, 2]], [[1], [2]], "shifted", ["-inf", None]),
        ([[1, 1]], [[1, 0], [-math.inf, 2]], [[1], [2]], "exp", ["1", "0"]),
        ([[1, 1]], [[1, 0], [1, 0]], [[math.nan], [2]], "context", [None]),
        ([[1e200, 1]], [[1e200, 0], [1, 2]], [[1], [2]], "scores", ["inf", "1.00000e200"]),
        ([[1e20, 1]], [[1, 0], [0, 2]], [[1], [2]], "shifted", ["0", "-7.07107e19"]),
        ([[1e-300, 1]], [[1, 0], [1, 0]], [[1], [2]], "weights", ["0.5", "0.5"]),
        ([[1, 1]], [[1, 0], [1, 0]], [[1e-300], [3e300]], "context", ["1.50000e300"]),
    ],
)
def test_extreme_numbers_are_written_as_they_are(
    q: Any, k: Any, v: Any, stage: str, shown: list[str | None]
) -> None:
    result = explained(heads_of(q, k, v))
    assert recompute(fields(result)) > 0
    linked(fields(result))
    assert results(result, stage) == shown


def test_where_float64_is_too_coarse_paper_goes_on_and_says_so() -> None:
    reading = heads_of([[1e16, 1, -1e16]], [[1, 3, 1], [1, 2, 1], [1, 0, 1]], [[1], [3], [5]])
    result = explained(reading)
    assert not result.agrees
    assert recompute(fields(result)) > 0
    assert results(result, "scores") == ["3", "2", "0"]
    (said,) = (finding for finding in result.findings if finding.code == "float64-rounding")
    assert said.severity == "warning"
    assert said.where.stage in ("weights", "context")
    assert not any("engine" in words for words in result.fine)


def test_heads_in_turn_up_to_four_else_the_first() -> None:
    few = Layer(heads=4, kv_heads=4).reading
    assert explained(few).heads == (0, 1, 2, 3)
    many = Layer(heads=6, kv_heads=2).reading
    result = explained(many)
    assert result.heads == (0,)
    assert "first-head" in [finding.code for finding in result.findings]
    assert explained(many, heads=(5, 2)).heads == (2, 5)
    assert "first-head" not in [f.code for f in explained(many, heads=(5,)).findings]


def test_the_first_item_of_a_batch_is_said() -> None:
    path = str(SAMPLES / "padding.json")
    result = explain_file(path, ExplainOptions(query=0))
    assert result.item == 0
    assert "first-item" in [finding.code for finding in result.findings]
    second = explain_file(path, ExplainOptions(query=0, item=1))
    assert "first-item" not in [finding.code for finding in second.findings]
    assert second.to_dict()["tokens"]["query"] == "thank"


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"query": 3}, "there is no query 3: this run has 3"),
        ({"heads": (1,)}, "there is no head 1: this run has 1"),
        ({"item": 1}, "there is no item 1: this run has 1"),
        ({"layer": 1}, "there is no layer 1: this run has 1"),
        ({"text": "a b"}, "--text is what a model reads"),
    ],
)
def test_an_index_that_is_not_there_is_an_error(change: Fields, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        explain_file(THREE, replace(ExplainOptions(query=0), **change))


MODEL = str(SAMPLES / "induction.safetensors")


def test_a_layer_of_a_model_can_be_followed() -> None:
    options = ExplainOptions(query=3, text="a b c a")
    for layer in (0, 1):
        result = explain_file(MODEL, replace(options, layer=layer))
        assert recompute(fields(result)) > 0
        linked(fields(result))
        assert result.agrees
        assert result.layer == layer
        assert {finding.where.layer for finding in result.findings} <= {layer, None}


def test_the_induction_head_is_seen_at_work_on_paper() -> None:
    result = explain_file(MODEL, ExplainOptions(query=3, text="a b c a", layer=1))
    weights = {line["index"]: float(line["result"]) for line in step(result, "weights")["lines"]}
    assert max(weights, key=lambda key: weights[key]) == 1  # the b after the first a


def test_without_layer_a_model_shows_its_first_and_says_so() -> None:
    result = explain_file(MODEL, ExplainOptions(query=0, text="a b"))
    assert result.layer == 0
    assert "first-layer" in [finding.code for finding in result.findings]


@pytest.mark.parametrize("change", [{"context": THREE}, {"weights": THREE}, {"layer": 7}])
def test_a_model_refuses_what_is_for_vectors(change: Fields) -> None:
    with pytest.raises(InputError):
        explain_file(MODEL, replace(ExplainOptions(query=0, text="a b"), **change))
