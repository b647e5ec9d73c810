"""The other side of --diff: what the text says, and what it cannot say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attn_cli.errors import AttnError
from attn_cli.models.hf.options import LoadOptions
from attn_cli.workflows.model.other_side import other_side

LEFT = LoadOptions(source="left", random_weights=True)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("right", {"source": "right"}),
        ("backend=eager", {"backend": "eager"}),
        ("dtype=bfloat16, backend=sdpa", {"dtype": "bfloat16", "backend": "sdpa"}),
        ("right,dtype=float16", {"source": "right", "dtype": "float16"}),
        ("seed=3", {"seed": 3}),
        ("device=cuda:1", {"device": "cuda:1"}),
    ],
)
def test_only_what_is_said_is_changed(text: str, changed: dict[str, object]) -> None:
    assert other_side(text, LEFT) == replace(LEFT, **changed)  # type: ignore[arg-type]


def test_what_is_there_is_a_path(tmp_path: Path) -> None:
    odd = tmp_path / "dtype=bfloat16"
    odd.mkdir()
    assert other_side(str(odd), LEFT).source == str(odd)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot read"),
        ("right,", "cannot read"),
        ("backend=", "cannot read"),
        ("backand=eager", "backend"),
        ("backend=flash", "sdpa"),
        ("seed=-1", "whole number"),
        ("dtype=float32,dtype=float64", "twice"),
        ("left", "the model itself"),
        ("seed=0", "the model itself"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(AttnError) as refused:
        other_side(text, LEFT)
    assert words in str(refused.value)
