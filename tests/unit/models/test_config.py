"""config: what is said is checked key by key, and what is not said follows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from attn_cli.errors import InputError
from attn_cli.models.config import ModelConfig, parse_config

LEAST = {"layers": 1, "heads": 2, "d_model": 6}


def parsed(**changes: Any) -> ModelConfig:
    return parse_config(json.dumps(LEAST | changes))


def test_what_is_not_said_follows_from_the_rest() -> None:
    config = parsed()
    assert (config.kv_heads, config.d_k, config.d_v) == (2, 3, 3)
    assert (config.mask, config.positions, config.norm, config.residual) == (
        None,
        "none",
        "none",
        True,
    )


def test_d_v_follows_d_k() -> None:
    assert parsed(d_k=5).d_v == 5


def test_null_is_as_if_it_were_not_said() -> None:
    assert parsed(mask=None, scale=None) == parsed()


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"layers": 0}, "layers 0: expected a whole number from 1"),
        ({"layers": True}, "layers True: expected a whole number"),
        ({"heads": 1.5}, "heads 1.5: expected a whole number"),
        ({"d_model": 10**12}, "d_model 1000000000000: expected a whole number"),
        ({"norm": "middle"}, "norm 'middle': expected none or pre or post"),
        ({"norm_eps": 0}, "norm_eps 0: expected a positive number"),
        ({"norm_eps": 10**400}, "norm_eps 1000.*: expected a positive number"),
        ({"residual": 1}, "residual 1: expected true or false"),
        ({"positions": "rope:diagonal"}, "positions 'rope:diagonal': expected none or sinus"),
        ({"positions": ["rope"]}, "positions .*: expected none or sinus"),
        ({"scale": "big"}, "scale 'big': expected a number, or none"),
        ({"softcap": -1}, "softcap -1: expected a positive number"),
        ({"mask": 3}, "mask 3: expected a mask expression"),
        ({"mask": "casual"}, "no mask 'casual'"),
        ({"kv_heads": 4}, "2 heads on 4 kv_heads: the query heads must be a multiple"),
        ({"heads": 4}, "splits d_model 6 into 4 heads of equal width"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_value_out_of_range_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parsed(**changes)


def test_a_misspelt_key_suggests_the_near_one() -> None:
    with pytest.raises(InputError, match="no config key 'n_heads'") as caught:
        parsed(n_heads=2)
    assert "did you mean 'heads'" in caught.value.hint


@pytest.mark.parametrize("name", LEAST)
def test_a_missing_key_is_named(name: str) -> None:
    said = {key: value for key, value in LEAST.items() if key != name}
    with pytest.raises(InputError, match=f"lacks {name}"):
        parse_config(json.dumps(said))


@pytest.mark.parametrize("text", ["{", "[1]", "3", "[" * 10_000, '{"layers": NaN}', "1" * 5000])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="config"):
        parse_config(text)
