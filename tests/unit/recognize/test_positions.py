"""positions: the scheme that was asked for, where it acts, and the table that it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.positions.alibi import slopes
from attn_cli.positions.rope import Rope
from attn_cli.positions.sinusoidal import sinusoidal
from attn_cli.recognize import understand
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read, said
from tests.unit.recognize.layers import STYLES

X = normal(4, 8, seed=20)
POSITION_NAMES = (
    "positions",
    "position_embeddings",
    "wpe.weight",
    "transformer.wpe.weight",
    "embed_positions.weight",
    "model.decoder.embed_positions.weight",
    "embeddings.position_embeddings.weight",
    "pos_embed",
    "positional_embedding",
)
RELATIVE_NAMES = (
    "relative_attention_bias",
    "relative_attention_bias.weight",
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
)


def test_sinusoidal_encodings_are_added_before_the_heads() -> None:
    reading = read(dump_of(x=X), positions="sinusoidal", heads=2)
    x = X + sinusoidal(np.arange(4), 8)
    np.testing.assert_allclose(reading.inputs.k[0, 1], x[:, 4:], rtol=1e-15)
    assert reading.inputs.origin is not None
    assert reading.settings.positions == "sinusoidal"
    assert codes(reading) == ["positions", "no-projections"]
    assert said(reading, "no-projections") == (
        "no projections: Q = K = V = x + positions, split into 2 heads of 4"
    )


def test_the_context_counts_from_0_for_itself() -> None:
    context = normal(6, 8, seed=3)
    reading = read(dump_of(x=X, context=context), positions="sinusoidal")
    np.testing.assert_allclose(
        reading.inputs.v[0, 0], context + sinusoidal(np.arange(6), 8), rtol=1e-15
    )
    assert said(reading, "positions").endswith("; x counts from 0, the context from 0")
    assert reading.inputs.q_offset is None


@pytest.mark.parametrize("align, start", [("lower-right", 2), ("upper-left", 0)])
def test_an_alignment_moves_the_queries(align: Any, start: int) -> None:
    dump = dump_of(x=X, context=normal(6, 8, seed=3))
    reading = read(dump, positions="sinusoidal", align=align)
    np.testing.assert_allclose(
        reading.inputs.q[0, 0], X + sinusoidal(np.arange(start, start + 4), 8), rtol=1e-15
    )
    assert f"x counts from {start}" in said(reading, "positions")


@pytest.mark.parametrize("name", POSITION_NAMES)
@pytest.mark.parametrize("apart", [True, False], ids=["beside the weights", "beside x"])
def test_learned_positions_by_every_name(name: str, apart: bool) -> None:
    table = normal(7, 8, seed=4)
    weights = {**STYLES["opt"](), **({name: table} if apart else {})}
    dump = dump_of(x=X, **({} if apart else {name: table}))
    reading = understand(
        dump,
        Choices(positions="learned", heads=2),
        weights=dump_of(**weights, source="layer.npz"),
    )
    assert reading.inputs.origin is not None
    np.testing.assert_array_equal(reading.inputs.origin.encoding, table[:4])
    assert "a table of 7 positions" in said(reading, "positions")
    np.testing.assert_array_equal(reading.tables["position_embeddings"], table)
    assert "ignored-weights" not in codes(reading)
    assert "ignored-arrays" not in codes(reading)


def test_a_batch_axis_of_1_is_dropped_from_the_table() -> None:
    dump = dump_of(x=X, pos_embed=normal(1, 5, 8))
    reading = read(dump, positions="learned")
    assert reading.inputs.origin is not None
    assert reading.inputs.origin.encoding is not None
    assert reading.inputs.origin.encoding.shape == (4, 8)


@pytest.mark.parametrize("name", RELATIVE_NAMES)
def test_a_relative_bias_by_every_name(name: str) -> None:
    table = normal(32, 2, seed=5)
    reading = read(dump_of(x=X, **{name: table}), positions="relative", heads=2)
    bias = reading.inputs.biased_by(0)
    np.testing.assert_array_equal(bias[:, 0, 0], table[0])
    np.testing.assert_array_equal(bias[:, 2, 0], table[2])
    np.testing.assert_array_equal(bias[:, 0, 2], table[16 + 2])
    assert said(reading, "positions") == (
        "relative is added to the scaled scores: 32 buckets, bidirectional, as in T5's encoder, "
        "distances from 128 on share the last one"
    )
    settings = reading.settings
    assert (settings.relative_bidirectional, settings.max_distance) == (True, 128)
    assert settings.rope_base is None


def test_the_relative_bias_of_a_decoder() -> None:
    table = normal(8, 1, seed=5)
    settings = {"positions": "relative", "relative_bidirectional": False, "max_distance": 20}
    reading = read(dump_of(x=X, relative_attention_bias=table, settings=settings))
    bias = reading.inputs.biased_by(0)[0]
    np.testing.assert_array_equal(bias[0], [table[0, 0]] * 4)
    np.testing.assert_array_equal(bias[3], [table[3, 0], table[2, 0], table[1, 0], table[0, 0]])
    both = read(
        dump_of(x=X, relative_attention_bias=table, settings=settings), relative_bidirectional=True
    )
    assert both.settings.relative_bidirectional is True


@pytest.mark.parametrize(
    "text, spelled, pairing",
    [
        ("rope", "rope:half", "half"),
        ("rope:half", "rope:half", "half"),
        ("rope:interleaved", "rope:interleaved", "interleaved"),
    ],
)
def test_rope_names_its_pairing_and_base(text: str, spelled: str, pairing: str) -> None:
    reading = read(dump_of(x=X), positions=text)
    assert reading.inputs.rotation == Rope("half" if pairing == "half" else "interleaved", 10_000.0)
    assert (reading.settings.positions, reading.settings.rope_base) == (spelled, 10_000.0)
    words = said(reading, "positions")
    assert words.startswith(f"{spelled} turns q and k: ")
    assert words.endswith("base 10000")


def test_rope_acts_on_q_and_k_that_were_given() -> None:
    reading = read(dump_of(**qkv((1, 2, 5, 6))), positions="rope:half", rope_base=500)
    assert reading.inputs.rotation == Rope("half", 500.0)
    assert reading.inputs.origin is None


def test_alibi_has_a_slope_a_head() -> None:
    reading = read(dump_of(**qkv((1, 3, 5, 6))), positions="alibi")
    bias = reading.inputs.biased_by(0)
    np.testing.assert_allclose(bias[:, 4, 1], [-3 * slope for slope in slopes(3)], rtol=1e-15)
    assert "slopes 0.0625, 0.00390625, 0.25" in said(reading, "positions")


@pytest.mark.parametrize("scheme", ["rope", "alibi"])
def test_unequal_lengths_need_an_alignment(scheme: str) -> None:
    arrays = qkv((2, 6), (5, 6))
    with pytest.raises(InputError, match="2 queries and 5 keys have no common origin") as caught:
        read(dump_of(**arrays), positions=scheme)
    assert "--align lower-right" in caught.value.hint
    reading = read(dump_of(**arrays), positions=scheme, align="lower-right")
    assert reading.inputs.q_offset == 3


def test_two_sequences_of_one_length_are_laid_side_by_side_and_that_is_said() -> None:
    dump = dump_of(x=X, context=normal(4, 8))
    reading = read(dump, positions="alibi")
    assert reading.inputs.q_offset == 0
    assert said(reading, "alignment").startswith("alibi compares positions of two sequences")


@pytest.mark.parametrize("positions", ["none", None])
def test_none_is_no_positions(positions: str | None) -> None:
    reading = read(dump_of(x=X), positions=positions)
    assert reading.settings.positions is None
    assert codes(reading) == ["no-projections"]
    dump = dump_of(x=X, settings={"positions": "sinusoidal"})
    assert read(dump).settings.positions == "sinusoidal"
    assert read(dump, positions="none").settings.positions is None


def test_tables_that_nobody_asks_for_are_named() -> None:
    dump = dump_of(x=X, positions=normal(9, 8), relative_attention_bias=normal(8, 1))
    words = [f.message for f in read(dump).findings if f.code == "positions-unused"]
    assert words == [
        "positions is not used: --positions learned asks for it",
        "relative_attention_bias is not used: --positions relative asks for it",
    ]


@pytest.mark.parametrize(
    "arrays, choices, words",
    [
        ({}, {"positions": "rop"}, "no position scheme 'rop'"),
        (
            {},
            {"positions": "rope:thirds"},
            "--positions is 'rope:thirds': expected rope or rope:half",
        ),
        ({}, {"positions": "alibi:half"}, "expected alibi$"),
        ({}, {"positions": ""}, "no position scheme ''"),
        ({}, {"positions": 3}, "--positions is 3: expected a position scheme"),
        ({}, {"positions": "rope", "rope_base": 0}, "--rope-base is 0: expected a positive number"),
        ({}, {"positions": "rope", "rope_base": float("inf")}, "--rope-base is inf"),
        ({}, {"positions": "alibi", "rope_base": 10.0}, "--rope-base was given, and the positions"),
        ({}, {"rope_base": 10.0}, "the positions are none"),
        ({}, {"relative_bidirectional": False}, "--relative-bidirectional was given"),
        ({}, {"positions": "rope", "max_distance": 4}, "--max-distance was given"),
        ({}, {"positions": "learned"}, "no file brings its table"),
        ({}, {"positions": "relative"}, "no file brings its table"),
        ({"positions": (3, 8)}, {"positions": "learned"}, "end at 2, and position 3 was asked for"),
        ({"positions": (4, 7)}, {"positions": "learned"}, r"shape \(4, 7\).*d_model 8"),
        ({"positions": (4,)}, {"positions": "learned"}, r"shape \(4,\): expected learned"),
        (
            {"positions": (4, 8), "wpe.weight": (4, 8)},
            {"positions": "learned"},
            "2 tables of positions",
        ),
        (
            {"relative_attention_bias": (8, 3)},
            {"positions": "relative"},
            r"\(8, 3\): expected a relative bias \(buckets, 1 heads\)",
        ),
        ({"relative_attention_bias": (3, 1)}, {"positions": "relative"}, "has 3 buckets"),
    ],
)
def test_what_cannot_be(
    arrays: dict[str, tuple[int, ...]], choices: dict[str, Any], words: str
) -> None:
    dump = dump_of(x=X, **{name: normal(*shape) for name, shape in arrays.items()})
    with pytest.raises(InputError, match=words):
        read(dump, **choices)


def test_an_odd_width_cannot_be_turned() -> None:
    with pytest.raises(InputError, match="d_k is 3, expected an even number"):
        read(dump_of(x=normal(4, 9)), heads=3, positions="rope")


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned"])
def test_added_positions_need_token_vectors(scheme: str) -> None:
    dump = dump_of(**qkv((3, 4)), positions=normal(3, 4))
    with pytest.raises(InputError, match="added to token vectors, and the file holds q, k and v"):
        read(dump, positions=scheme)


def test_q_k_and_v_beside_x_are_made_again_with_added_positions() -> None:
    dump = dump_of(x=X[None], **qkv((1, 1, 4, 8)), settings={"positions": "sinusoidal"})
    reading = read(dump)
    assert "computed again from x" in said(reading, "stages")
    np.testing.assert_allclose(reading.inputs.q[0, 0], X + sinusoidal(np.arange(4), 8), rtol=1e-15)
