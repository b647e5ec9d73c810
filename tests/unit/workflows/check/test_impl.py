"""check_impl: the verdict, its JSON object, and the lines that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attn_cli.core.results_impl import Behaviour
from attn_cli.diagnosis.plan_json import Said, said_of
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.workflows.check.impl import check_impl, unusable
from tests.unit.diagnosis.impls import verdicts, wrong_functions, wrong_modules
from tests.unit.diagnosis.wrong_cases import LAYER, LAYER_INTENT, MASKED, NUMPY, PLAIN

IMPLS = Path(__file__).parents[2] / "diagnosis" / "impls"
MISTAKE = {"code", "title", "stage", "line", "source", "note", "explanation", "evidence", "fix"}
KEYS = {
    "schema", "name", "file", "verdict", "mistakes", "alternatives", "conventions", "plan", "trace",
    "first_parting", "signatures", "behaviour", "probes", "asked", "findings",
}  # fmt: skip


def said(call: Any, **intent: Any) -> Said:
    return said_of({"call": call, "intent": intent})


def line_of(file: str, text: str) -> int:
    lines = (IMPLS / file).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_object_has_every_field_and_is_json() -> None:
    result = check_impl(wrong_functions.weights_transposed, said(PLAIN))
    fields = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(fields) == KEYS
    assert fields["schema"] == "attn.check.impl/1"
    assert fields["verdict"] == "wrong"
    assert set(fields["mistakes"][0]) == MISTAKE
    assert fields["mistakes"][0]["code"] == "weights_transposed"
    assert fields["plan"]["schema"] == "attn.plan/1"
    assert {line["check"] for line in fields["behaviour"]} >= {"batch independence", "gradients"}
    outcomes = {probe["outcome"] for probe in fields["probes"]}
    assert outcomes == {"agrees", "differs"}
    assert fields["trace"]


def test_nan_and_inf_are_json() -> None:
    result = check_impl(wrong_functions.mask_zero_times_inf, said(MASKED))
    fields = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert "inf" in {probe["worst"] for probe in fields["probes"]}


def test_the_line_of_a_mistake_is_that_of_the_file() -> None:
    result = check_impl(wrong_modules.ScaleByNumHeads, said(LAYER, **LAYER_INTENT))
    (mistake,) = result.mistakes
    assert mistake.line == line_of("wrong_modules.py", "self.compare(q, k) * self.factor()")


def test_the_line_of_a_crash_is_where_it_raised() -> None:
    result = check_impl(wrong_functions.crash_on_bool_mask, said(MASKED))
    assert result.mistakes[0].line == line_of("wrong_functions.py", "(1.0 - mask) * 1e9")


def test_alternatives_say_how_to_tell_them_apart() -> None:
    result = check_impl(wrong_functions.scale_applied_twice, said(MASKED))
    assert [mistake.code for mistake in result.mistakes] == ["scale_applied_twice"]
    assert [other.code for other in result.alternatives] == ["scale_by_dk"]
    assert result.alternatives[0].tell_apart


def test_conventions_are_said_of_right_code() -> None:
    result = check_impl(wrong_modules.Layer, said(LAYER, **LAYER_INTENT))
    assert result.verdict == "correct"
    assert not result.mistakes
    assert any("True in pad means hidden" in text for text in result.conventions)


def test_further_lines_are_added() -> None:
    extra = Behaviour("boundary cases", "holds", "200 of 200")
    result = check_impl(wrong_functions.numpy_right, said(NUMPY), lines=lambda adapted: (extra,))
    assert result.verdict == "correct"
    assert result.behaviour[-1] == extra


def test_what_is_undecided_has_the_signatures_of_a_difference() -> None:
    result = check_impl(verdicts.of_its_own_kind, said(MASKED))
    assert result.verdict == "undecided"
    assert any("largest difference" in text for text in result.signatures)
    assert result.to_dict()["signatures"] == list(result.signatures)


def test_a_file_is_run_in_a_process_of_its_own() -> None:
    result = check_impl(f"{IMPLS}/wrong_modules.py:NoFinal", say(init="24, 3"))
    assert result.verdict == "wrong"
    assert [mistake.code for mistake in result.mistakes] == ["out_proj_missing"]
    assert result.file is not None
    assert result.file.endswith("wrong_modules.py")


def test_code_that_cannot_be_checked_has_an_object_too() -> None:
    with pytest.raises(Unusable) as caught:
        check_impl(f"{IMPLS}/wrong_modules.py:Layers")
    fields = unusable(caught.value).to_dict()
    assert fields["verdict"] == "unusable"
    assert fields["step"] == "find"
    assert "Layer" in fields["hint"]
    json.dumps(fields, allow_nan=False)
