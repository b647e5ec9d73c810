"""The registry of position schemes: each declares itself, and acts in one place at most."""

from __future__ import annotations

import pytest

from attn_cli.errors import InputError
from attn_cli.positions import POSITIONS

ACTS = {
    "none": "nothing",
    "sinusoidal": "added",
    "learned": "added",
    "rope": "rotates",
    "alibi": "bias",
    "relative": "bias",
}


def test_every_scheme_says_where_it_acts() -> None:
    assert {name: POSITIONS[name].acts for name in POSITIONS} == ACTS


@pytest.mark.parametrize("name", list(POSITIONS))
def test_a_scheme_is_called_as_it_is_registered(name: str) -> None:
    scheme = POSITIONS[name]
    assert scheme.name == name
    assert scheme.spellings[0] == name
    makers = [scheme.encode, scheme.rotate, scheme.bias]
    assert sum(maker is not None for maker in makers) == (scheme.acts != "nothing")


def test_variants_are_written_after_a_colon() -> None:
    assert POSITIONS["rope"].spellings == ("rope", "rope:half", "rope:interleaved")


def test_a_wrong_name_suggests_the_near_one() -> None:
    with pytest.raises(InputError, match="no position scheme 'rotary'") as caught:
        POSITIONS["rotary"]
    assert "rope" in caught.value.hint
