"""Whatever a subject does, the suite goes on and says what it did."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from attn_cli.checks.edges.case import Answer, Case
from attn_cli.checks.edges.judging import judge
from attn_cli.checks.edges.right import right_of
from attn_cli.checks.edges.subjects import EngineSubject
from attn_cli.checks.edges.suite import make_cases
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_edges import Judgement
from attn_cli.errors import UnsupportedError


@dataclass(frozen=True)
class Doing:
    """A subject that does one thing with the right answer."""

    act: Callable[[AttentionInputs, Answer], Answer]
    name: str = "doing"

    def attend(self, inputs: AttentionInputs, dtype: str) -> Answer:
        return self.act(inputs, EngineSubject("numpy").attend(inputs, dtype))


def case_of(path: str) -> Case:
    kind, name = path.split("/")
    return next(case for case in make_cases(kind) if case.name == name)


def judged(
    act: Callable[[AttentionInputs, Answer], Answer], path: str = "every-mask/causal"
) -> Judgement:
    case = case_of(path)
    return judge(case, Doing(act), right_of(case))


def raising(error: BaseException) -> Callable[[AttentionInputs, Answer], Answer]:
    def act(inputs: AttentionInputs, answer: Answer) -> Answer:
        raise error

    return act


def test_the_right_answer_passes() -> None:
    done = judged(lambda inputs, answer: answer)
    assert (done.verdict, done.reason, done.mismatch) == ("passed", "", None)


def test_weights_are_optional() -> None:
    assert judged(lambda inputs, answer: Answer(answer.output)).verdict == "passed"


@pytest.mark.parametrize(
    "error, said",
    [
        (ValueError("bad\nlines"), "it raised ValueError: bad"),
        (IndexError(), "it raised IndexError"),
        (SystemExit(3), "it raised SystemExit: 3"),
        (RecursionError("deep"), "it raised RecursionError: deep"),
    ],
)
def test_whatever_is_raised_is_a_failure(error: BaseException, said: str) -> None:
    done = judged(raising(error))
    assert (done.verdict, done.reason) == ("failed", said)


def test_a_refusal_is_not_a_failure() -> None:
    done = judged(raising(UnsupportedError("no masks here")))
    assert (done.verdict, done.reason) == ("unsupported", "no masks here")


def test_an_interruption_is_let_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        judged(raising(KeyboardInterrupt()))


@pytest.mark.parametrize(
    "act, said",
    [
        (
            lambda inputs, answer: Answer(answer.output.swapaxes(1, 2)),
            "its output has shape (2, 5, 3, 4): expected (2, 3, 5, 4), (batch, head, query, d_v)",
        ),
        (
            lambda inputs, answer: replace(answer, weights=answer.output),
            "its weights has shape (2, 3, 5, 4): expected (2, 3, 5, 7), (batch, head, query, key)",
        ),
        (
            lambda inputs, answer: Answer(answer.output + 0j),
            "its output is complex128: expected real numbers",
        ),
        (
            lambda inputs, answer: Answer(np.array([None])),
            "its output is object: expected real numbers",
        ),
        (lambda inputs, answer: None, "it raised AttributeError: "),
    ],
)
def test_another_shape_or_no_numbers_is_a_failure(
    act: Callable[[AttentionInputs, Answer], Answer], said: str
) -> None:
    done = judged(act)
    assert done.verdict == "failed"
    assert done.reason.startswith(said)


def test_changing_the_input_is_a_failure_and_is_undone() -> None:
    def scales_in_place(inputs: AttentionInputs, answer: Answer) -> Answer:
        inputs.q[...] *= 2
        return answer

    case = case_of("every-mask/causal")
    before = case.inputs.q.copy()
    done = judge(case, Doing(scales_in_place), right_of(case))
    assert (done.verdict, done.reason) == ("failed", "it changed q, which it was given to read")
    np.testing.assert_array_equal(case.inputs.q, before)


def test_warnings_of_a_subject_are_its_own() -> None:
    def warning(inputs: AttentionInputs, answer: Answer) -> Answer:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        return answer

    assert judged(warning).verdict == "passed"


def moved(where: tuple[int, ...], by: float) -> Callable[[AttentionInputs, Answer], Answer]:
    def act(inputs: AttentionInputs, answer: Answer) -> Answer:
        weights = np.array(answer.weights)
        weights[where] += by
        return Answer(answer.output, weights)

    return act


def test_a_hidden_key_must_get_exactly_nothing() -> None:
    done = judged(moved((0, 1, 0, 6), 1e-300))
    assert done.mismatch is not None
    assert done.mismatch.words == "a hidden key gets exactly 0"
    assert done.mismatch.where == (0, 1, 0, 6)


def test_a_row_must_sum_to_one() -> None:
    done = judged(moved((1, 2, 4, 0), 1e-9))
    assert done.mismatch is not None
    assert (done.mismatch.stage, done.mismatch.where) == ("row sums", (1, 2, 4))


@pytest.mark.parametrize("off", [1e-12, float("nan"), float("inf")])
def test_one_element_of_the_output_is_found_with_its_place(off: float) -> None:
    def act(inputs: AttentionInputs, answer: Answer) -> Answer:
        output = answer.output.copy()
        output[1, 0, 3, 2] += off
        return Answer(output, answer.weights)

    done = judged(act)
    assert done.mismatch is not None
    assert (done.mismatch.stage, done.mismatch.where) == ("output", (1, 0, 3, 2))
    assert (done.mismatch.beyond, done.mismatch.total) == (1, 120)


@pytest.mark.parametrize("value", [1e-300, float("nan")])
def test_an_empty_row_gives_exactly_zero(value: float) -> None:
    def act(inputs: AttentionInputs, answer: Answer) -> Answer:
        output = answer.output.copy()
        output[0, 2, 1, 3] = value
        return Answer(output)

    done = judged(act, "empty-row/causal-lower-right")
    assert done.mismatch is not None
    assert done.mismatch.words == "a row that sees no key gives 0"
    assert done.mismatch.where == (0, 2, 1, 3)


def test_one_visible_key_gives_its_value_to_the_last_bit() -> None:
    def act(inputs: AttentionInputs, answer: Answer) -> Answer:
        return Answer(np.nextafter(answer.output, 9))

    done = judged(act, "one-visible-key/window")
    assert done.verdict == "failed"
