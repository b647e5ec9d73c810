"""--init, --call, --returns, --map and what the code is meant to do, as a plan reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from attn_cli.diagnosis.plan_json import said_of
from attn_cli.diagnosis.saying import read_call, read_init, read_map, read_returns, say
from attn_cli.errors import InputError


def test_an_option_says_more_than_the_plan_file() -> None:
    said = say(said_of({"intent": {"heads": 2, "causal": True}}), heads=4)
    assert said.intent == {"heads": 4, "causal": True}


def test_names_of_the_file_stand_for_its_objects() -> None:
    said = read_init("default_config, 3, shape=(1, 2)")
    assert said == {"args": [{"$name": "default_config"}, 3], "kwargs": {"shape": [1, 2]}}


def test_a_mask_may_be_called_as_the_code_calls_it() -> None:
    assert read_call("x, attention_mask")["mask_place"] == 1
    assert read_call("x, m=mask")["mask_place"] == "m"
    assert read_call("hidden_states, None_=None, n=4")["constants"] == {"None_": None, "n": 4}


@pytest.mark.parametrize(
    "masks, intent",
    [
        (["causal"], {"causal": True}),
        (["none"], {"causal": False}),
        (["window(3)"], {"causal": True, "window": 3}),
        (["causal", "window(3)"], {"causal": True, "window": 3}),
        (["window(3, both)"], {"causal": False, "window": 3}),
        (["causal | sink(1)"], {"causal": False, "mask": "causal | sink(1)"}),
    ],
)
def test_masks_are_those_of_attn_run(masks: list[str], intent: dict[str, Any]) -> None:
    assert say(masks=masks).intent == intent


def test_scale_none_is_one() -> None:
    assert say(scale="none").intent == {"scale": 1.0}


@pytest.mark.parametrize(
    "positions, intent",
    [
        ("rope:interleaved", {"rope": {"layout": "interleaved"}}),
        ("rope", {"rope": {"layout": "half"}}),
        ("alibi", {"alibi": True}),
        ("sinusoidal", {"positions": "sinusoidal"}),
    ],
)
def test_positions_are_those_of_attn_run(positions: str, intent: dict[str, Any]) -> None:
    assert say(positions=positions).intent == intent


@pytest.mark.parametrize(
    "read, text, message",
    [
        (read_init, "d_model=", "--init is 'd_model=': expected arguments as in a call"),
        (read_init, "**x", "--init is '**x': expected arguments as in a call"),
        (read_init, "open('f')", "--init holds open('f'): expected a literal or a name"),
        (read_init, ")(", "--init is ')(': expected arguments"),
        (read_call, "x, 3", "--call holds 3: expected one of q, k, v"),
        (read_call, "x, what", "--call holds what: expected one of"),
        (read_returns, "out, wieghts", "there is no result 'wieghts'"),
        (read_returns, "a=out, weights", "--returns is 'a=out, weights': expected results"),
        (read_map, "q", "--map holds 'q': expected NAME=role"),
        (read_map, "a=query", "there is no projection 'query'"),
    ],
)
def test_what_cannot_be_read_is_said(read: Callable[[str], Any], text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.message.startswith(message)
