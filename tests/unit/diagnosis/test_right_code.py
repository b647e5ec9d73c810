"""Code that is right, in many styles: its plan is worked out, and its answers are attn's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.answers import Observed
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.meaning import reference
from attn_cli.diagnosis.plan_json import Said, said_of, to_json
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.subject import Adapted

IMPLS = Path(__file__).parent / "impls"
HIDDEN = say(init="num_heads=3, hidden_size=24", mask_means="hidden")
CROSS = say(init="dim=32, context_dim=20, heads=3")
RIGHT: dict[str, Said] = {
    "functions.py:single_head_numpy": Said(),
    "functions.py:batched_numpy": Said(),
    "functions.py:plain_python": Said(),
    "functions.py:any_rank": Said(),
    "functions.py:weights_first": Said(),
    "functions.py:heads_third": Said(),
    "functions.py:in_a_dict": Said(),
    "functions.py:in_a_dataclass": Said(),
    "functions.py:grouped": say(kv_heads=1),
    "functions.py:split_inside": Said(),
    "functions.py:with_matrices": Said(),
    "functions.py:of_itself": Said(),
    "functions.py:make_layer": say(init="24, 3"),
    "modules.py:Separate": say(init="32, 4"),
    "modules.py:SingleHead": say(init="24, head_size=6"),
    "modules.py:ListOfHeads": Said(),
    "modules.py:CrossKV": CROSS,
    "modules.py:FusedBiased": say(init="32, 4"),
    "modules.py:Wrapped": say(init="24, 3"),
    "modules.py:InProj": Said(),
    "modules.py:HeadTensors": say(init="3, 24, 8"),
    "modules.py:OfImages": say(init="16"),
    "modules.py:Grouped": Said(),
    "modules.py:Nameless": say(init="24, 3", names="first=q,second=k,third=v,last=o"),
    "configured.py:GPT": Said(),
    "configured.py:Llama": say(init="dim=32, n_heads=4"),
    "configured.py:FromDict": HIDDEN,
    "configured.py:Windowed": Said(),
    "configured.py:OfArrays": say(init="24"),
    "configured.py:Positioned": Said(),
    "configured.py:ready": Said(),
}


def questions(code: Adapted) -> list[Question]:
    """What may be asked of a plan: unequal lengths, one token, a mask, steps with a cache."""
    asked = []
    call = code.plan.call
    lengths = [(5, None), (1, None), *([(5, 7), (4, 2)] if call.lengths_may_differ else [])]
    for layout in call.layouts:
        for queries, keys in lengths:
            for masked in (False, True) if call.mask else (False,):
                narrow = 6 if call.widths_may_differ else None
                sizes = Sizes(2, queries, keys, heads=3, width=8, value_width=narrow)
                name = f"{layout} {queries} × {keys or queries}{' masked' if masked else ''}"
                asked.append(
                    draw_question(
                        code.plan,
                        code.parameters,
                        sizes,
                        name=name,
                        layout=layout,
                        masked=masked,
                        seed=queries,
                    )
                )
    if code.plan.intent.cache_arg is not None:
        sizes, steps = Sizes(2, 6), (3, 1, 2)
        asked.append(draw_question(code.plan, code.parameters, sizes, name="cache", steps=steps))
    return asked


def assert_right(question: Question, observed: Observed) -> None:
    """The output is that of the reference, and so are the weights; rows that do not count aside."""
    assert observed.trouble is None, f"{question.name}: {observed.trouble}"
    assert observed.output is not None
    trace, judged = reference(question), question.judged
    rows = judged if question.stage == "context" else judged.all(1)
    right = trace[question.stage][rows]
    np.testing.assert_allclose(
        observed.output[rows], right, rtol=1e-9, atol=1e-9, err_msg=question.name
    )
    if observed.weights is not None:
        weights = trace["weights"]
        if observed.weights_kind == "mean":
            weights = weights.mean(1, keepdims=True)
            judged = np.logical_and.reduce(judged, axis=1, keepdims=True)
        np.testing.assert_allclose(observed.weights[judged], weights[judged], atol=1e-9)


def adapted(target: str, said: Said = Said()) -> Adapted:
    """Code of impls/, in this process."""
    return adapt(f"{IMPLS}/{target}", said, session=LocalSession())


@pytest.mark.parametrize("target", RIGHT)
def test_right_code_gives_the_answers_of_the_reference(target: str) -> None:
    code = adapted(target, RIGHT[target])
    for question in questions(code):
        observed = code.attend(question, repeat=2)
        assert_right(question, observed)
        assert observed.mutated == ()
        assert observed.output is not None
        np.testing.assert_array_equal(observed.repeats[0], observed.output)


@pytest.mark.parametrize("target", RIGHT)
def test_the_plan_that_was_used_gives_the_same_when_it_is_said(target: str) -> None:
    first = adapted(target, RIGHT[target])
    again = adapted(target, said_of(to_json(first.plan)))
    assert again.plan == first.plan
    question, same = questions(first)[-1], questions(again)[-1]
    output, once_more = first.attend(question).output, again.attend(same).output
    assert output is not None
    assert once_more is not None
    np.testing.assert_array_equal(output, once_more)


def test_the_assertion_fails_where_the_answer_is_wrong() -> None:
    code = adapted("functions.py:single_head_numpy")
    question = questions(code)[0]
    observed = code.attend(question)
    assert observed.output is not None
    observed.output[0, 0, 0, 0] += 1e-6
    with pytest.raises(AssertionError, match="Mismatched"):
        assert_right(question, observed)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_code_runs_in_the_precision_that_is_asked(dtype: str) -> None:
    code = adapted("modules.py:Separate", say(init="32, 4"))
    observed = code.attend(questions(code)[0], dtype=dtype)
    assert observed.dtype == dtype


def test_train_mode_drops_and_its_seed_repeats() -> None:
    code = adapted("modules.py:Separate", say(init="32, 4"))
    question = questions(code)[0]
    outputs = [code.attend(question, train=True, seed=seed).output for seed in (1, 1, 2)]
    assert all(output is not None for output in outputs)
    first, same, other = (np.asarray(output) for output in outputs)
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
