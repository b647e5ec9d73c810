"""Somebody's code that is asked by AttentionInputs answers as an engine does, or says why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.host.session import LIMIT, LocalSession, Session
from attn_cli.diagnosis.inputs_subject import InputsSubject
from attn_cli.diagnosis.plan_json import Said
from attn_cli.diagnosis.saying import say
from attn_cli.engines import ENGINES
from attn_cli.errors import UnsupportedError
from attn_cli.masks.causal import Causal
from attn_cli.masks.file import Stored

IMPLS = Path(__file__).parent / "impls"


class Counting:
    """A session that remembers what it was asked."""

    def __init__(self, behind: Session) -> None:
        self.behind = behind
        self.asked: list[str] = []

    def ask(self, request: dict[str, Any], *, limit: float = LIMIT) -> dict[str, Any]:
        self.asked.append(request["op"])
        return self.behind.ask(request, limit=limit)

    def close(self) -> None:
        self.behind.close()


def subject(target: str, said: Said = Said()) -> InputsSubject:
    return InputsSubject(adapt(f"{IMPLS}/{target}", said, session=LocalSession()))


def inputs(
    heads: int, width: int, *, keys: int = 5, kv_heads: int | None = None
) -> AttentionInputs:
    rng = np.random.default_rng(heads)
    q = rng.normal(size=(2, heads, 5, width))
    k, v = rng.normal(size=(2, 2, kv_heads or heads, keys, width))
    return AttentionInputs(q, k, v)


def nowhere(asked: AttentionInputs) -> AttentionInputs:
    """The same with a NaN among the keys."""
    k = asked.k.copy()
    k[0, 0, 0, 0] = np.nan
    return AttentionInputs(asked.q, k, asked.v)


def right(asked: AttentionInputs) -> np.ndarray:
    return ENGINES["numpy"].run(asked, Ask(keep=frozenset({"context"})))["context"]


@pytest.mark.parametrize(
    "target, said, asked",
    [
        ("functions.py:single_head_numpy", Said(), inputs(3, 4, keys=7)),
        ("functions.py:any_rank", Said(), inputs(4, 8, kv_heads=2)),
        ("functions.py:heads_third", Said(), inputs(2, 4)),
        ("modules.py:Separate", say(init="32, 4"), inputs(4, 8, keys=9)),
        (
            "modules.py:Nameless",
            say(init="24, 3", names="first=q,second=k,third=v,last=o"),
            inputs(3, 8),
        ),
        ("modules.py:CrossKV", say(init="dim=32, heads=4"), inputs(4, 8, keys=3)),
        ("modules.py:Separate", say(init="32, 4"), inputs(2, 8)),
        ("modules.py:Separate", say(init="32, 4"), inputs(6, 2, kv_heads=3)),
    ],
)
def test_the_answers_are_those_of_an_engine(
    target: str, said: Said, asked: AttentionInputs
) -> None:
    np.testing.assert_allclose(
        subject(target, said).context(asked, "float64"), right(asked), atol=1e-12
    )


def test_a_mask_is_given_where_the_code_takes_it_or_has_it() -> None:
    plain = inputs(3, 8)
    seen = np.random.default_rng(0).random((2, 3, 5, 5)) < 0.6
    seen[..., 0] = True
    asked = AttentionInputs(plain.q, plain.k, plain.v, mask=Stored(seen))
    out = subject("functions.py:any_rank").context(asked, "float64")
    np.testing.assert_allclose(out, right(asked), atol=1e-12)
    plain = inputs(1, 6)
    causal = AttentionInputs(plain.q, plain.k, plain.v, mask=Causal())
    code = subject("modules.py:SingleHead", say(init="12, 6"))
    np.testing.assert_allclose(code.context(causal, "float64"), right(causal), atol=1e-12)
    with pytest.raises(UnsupportedError, match="cannot be given this mask"):
        code.context(plain, "float64")


def test_the_layer_has_its_own_numbers_afterwards() -> None:
    code = subject("modules.py:Separate", say(init="32, 4"))
    layer = code.code.parameters.projections
    assert layer is not None
    code.context(inputs(4, 8), "float64")
    request = {"op": "read", "names": ["W_q.weight"], "init": {"args": [32, 4]}, "dtype": "float64"}
    held = code.code.session.ask(request)["ok"]["W_q.weight"]
    np.testing.assert_array_equal(held, layer.w_q.T)


@pytest.mark.parametrize("queries, keys, start", [(5, 9, 4), (5, 9, 0), (1, 6, 5)])
def test_self_attention_is_asked_of_other_lengths_among_its_own(
    queries: int, keys: int, start: int
) -> None:
    rng = np.random.default_rng(0)
    q = rng.normal(size=(3, 2, queries, 6))
    k, v = rng.normal(size=(2, 3, 2, keys, 6))
    asked = AttentionInputs(q, k, v, mask=Causal(), q_offset=start)
    code = subject("modules.py:SingleHead", say(init="12, 6"))
    np.testing.assert_allclose(code.context(asked, "float64"), right(asked), atol=1e-12)


def test_queries_that_no_key_follows_see_what_they_should_not() -> None:
    rng = np.random.default_rng(0)
    q = rng.normal(size=(1, 1, 9, 6))
    k, v = rng.normal(size=(2, 1, 1, 5, 6))
    asked = AttentionInputs(q, k, v, mask=Causal())
    with pytest.raises(UnsupportedError, match="cannot be given this mask"):
        subject("modules.py:SingleHead", say(init="12, 6")).context(asked, "float64")


def test_heads_of_one_mask_are_asked_together() -> None:
    code = subject("functions.py:any_rank")
    session = Counting(code.code.session)
    counted = InputsSubject(replace(code.code, session=session))
    counted.context(inputs(4, 8), "float64")
    assert session.asked == ["call"]


@pytest.mark.parametrize(
    "asked, words",
    [
        (inputs(4, 4), "a scale of its own"),
        (inputs(4, 16), "wider heads|a scale of its own"),
        (nowhere(inputs(4, 8)), "not finite"),
        (inputs(4, 8, keys=40), "more tokens than features"),
    ],
)
def test_what_a_layer_cannot_be_asked(asked: AttentionInputs, words: str) -> None:
    code = subject("modules.py:Separate", say(init="32, 4"))
    with pytest.raises(UnsupportedError, match=words):
        code.context(asked, "float64")


def test_what_the_code_is_not_meant_for() -> None:
    plain = inputs(3, 8)
    asked = AttentionInputs(plain.q, plain.k, plain.v, scale=1.0)
    with pytest.raises(UnsupportedError, match="a scale of its own"):
        subject("functions.py:any_rank").context(asked, "float64")
