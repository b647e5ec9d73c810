"""Shapes of many layers: equal ones together, their own masks, caches, and other mixers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from attn_cli.core.checkpoint import Checkpoint
from attn_cli.core.geometry import Geometry, Latent, LayerGeometry
from attn_cli.core.problems import Problem
from attn_cli.core.results_shapes import ShapesResult
from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.workflows.check.shapes_checkpoint import of_layers
from attn_cli.workflows.check.shapes_options import ShapesOptions
from attn_cli.workflows.check.shapes_stack import mask_of

FULL = Geometry(
    heads=8, kv_heads=2, d_k=64, d_v=64, d_model=512, d_out=512, projected=True, causal=True,
    positions="rope",
)  # fmt: skip
WINDOWED = replace(FULL, window=100)


def layer(index: int, geometry: Geometry | None, stack: str = "", **more: Any) -> LayerGeometry:
    kind = "softmax" if geometry is not None else "state-space"
    fields = {"kind": kind, "says": "attention" if geometry else "mamba", **more}
    return LayerGeometry(
        path=f"{stack or 'model'}.layers.{index}", index=index, stack=stack,
        geometry=geometry, **fields,
    )  # fmt: skip


def checkpoint(*layers: LayerGeometry, **more: Any) -> Checkpoint:
    fields: dict[str, Any] = {
        "source": "folder", "model_type": "llama", "architecture": "LlamaForCausalLM",
        "known": True, "tensors": 9, "dtype": "bfloat16", "max_positions": 4096, "layers": layers,
    }  # fmt: skip
    return Checkpoint(**fields | more)


def looked(found: Checkpoint, masks: tuple[str, ...] = (), **options: Any) -> ShapesResult:
    return of_layers(found, ShapesOptions(choices=Choices(masks=masks), **options))


def test_equal_layers_are_one_group() -> None:
    result = looked(checkpoint(*(layer(i, (FULL, WINDOWED)[i % 2]) for i in range(6))))
    assert [group.layers for group in result.groups] == [(0, 2, 4), (1, 3, 5)]
    assert [group.sizes.mask for group in result.groups] == ["causal", "causal & window(100)"]
    listed = result.to_dict()
    rows = len(result.groups[0].rows)
    assert [row["layer"] for row in listed["shapes"]] == [i for i in range(6) for _ in range(rows)]
    one = sum(row["flops"] for row in listed["shapes"] if row["layer"] == 0)
    assert listed["totals"]["flops"] == 6 * one


def test_a_window_caps_the_cache() -> None:
    result = looked(checkpoint(layer(0, FULL), layer(1, WINDOWED)), seq=1000)
    each = 2 * 2 * 64 * 2
    assert [group.cache for group in result.groups] == [each, each]
    assert result.to_dict()["totals"]["kv_cache_bytes"] == each * (1000 + 100)


def test_lengths_have_defaults_and_a_limit() -> None:
    assert looked(checkpoint(layer(0, FULL))).groups[0].sizes.queries == 1024
    short = checkpoint(layer(0, FULL), max_positions=77)
    assert looked(short).groups[0].sizes.queries == 77
    (problem,) = looked(short, seq=100).problems
    assert (problem.code, problem.severity) == ("beyond-positions", "warning")


def test_other_mixers_have_no_trace() -> None:
    result = looked(checkpoint(layer(0, None), layer(1, FULL), layer(2, None)))
    assert [group.layers for group in result.groups] == [(0, 2), (1,)]
    assert [bool(group.rows) for group in result.groups] == [False, True]
    assert [each["kind"] for each in result.to_dict()["layers"]] == [
        "state-space", "softmax", "state-space",
    ]  # fmt: skip


def test_decoding_with_a_cache() -> None:
    (group,) = looked(checkpoint(layer(0, FULL)), seq=1, key_seq=2000).groups
    rows = {row.step.stage: row for row in group.rows}
    assert rows["scores"].step.shape == (1, 8, 1, 2000)
    assert rows["k"].cost.flops == 2 * 512 * 2 * 64
    assert group.visible == group.pairs


@pytest.mark.parametrize(
    "geometry, options, code",
    [
        (FULL, {"seq": 9, "key_seq": 8}, "fewer-keys-than-queries"),
        (replace(FULL, causal=False), {"seq": 8, "key_seq": 9}, "no-cache"),
        (replace(FULL, kv_heads=3), {}, "kv-heads-do-not-divide"),
        (replace(FULL, d_k=63), {}, "odd-width"),
        (replace(FULL, softcap=-3.0), {}, "does-not-fit"),
        (FULL, {"dtype": "int8"}, "unknown-dtype"),
        (FULL, {"masks": ("padding(3, 4)",)}, "mask"),
    ],
)
def test_what_does_not_fit(geometry: Geometry, options: dict[str, Any], code: str) -> None:
    result = looked(checkpoint(layer(0, geometry)), **options)
    assert [problem.code for problem in result.errors] == [code]


def test_a_problem_of_many_layers_is_that_of_each() -> None:
    result = looked(checkpoint(*(layer(i, replace(FULL, kv_heads=3)) for i in range(5))))
    assert [problem.layer for problem in result.errors] == [f"model.layers.{i}" for i in range(5)]
    assert len({problem.message for problem in result.errors}) == 1
    said = Problem("kv-heads", "8 heads do not share 3")
    found = checkpoint(layer(0, replace(FULL, kv_heads=3)), problems=(said,))
    assert looked(found).errors == (said,)


def test_an_encoder_keeps_no_cache_and_a_decoder_keeps_both() -> None:
    own = replace(FULL, positions=None, kv_heads=8)
    found = checkpoint(
        layer(0, replace(own, causal=False), "encoder"),
        layer(0, own, "decoder"),
        layer(0, replace(own, causal=False, cross=True), "decoder"),
    )
    result = looked(found, seq=3, key_seq=5)
    keys = {group.layers: group.sizes.keys for group in result.groups}
    assert keys == {(0,): 3, (1,): 3, (2,): 5}
    assert [bool(group.cache) for group in result.groups] == [False, True, True]
    crossed = {row.step.stage: row.step for row in result.groups[2].rows}
    assert crossed["k"].formula == "the context · W_k split into heads"
    assert result.errors == ()


def test_latent_attention_has_its_narrow_vectors() -> None:
    latent = Latent(q_rank=24, kv_rank=20, d_nope=32, d_rope=16)
    geometry = replace(FULL, kv_heads=8, d_k=48, latent=latent)
    (group,) = looked(checkpoint(layer(0, geometry)), seq=5).groups
    rows = {row.step.stage: row for row in group.rows}
    assert rows["q_latent"].step.shape == (1, 5, 24)
    assert rows["kv_latent"].step.shape == (1, 5, 20)
    assert rows["k_rope"].step.shape == (1, 5, 16)
    assert rows["q"].cost.flops == 2 * 24 * 5 * 8 * 48
    assert rows["k"].cost.flops == 2 * 20 * 5 * 8 * 32
    assert rows["k_rotated"].cost.flops == 3 * 5 * 16
    assert group.cache == (20 + 16) * 2
    made = sum(2 * n for n in (512 * 24, 24 * 8 * 48, 512 * 36, 20 * 8 * (32 + 64), 8 * 64 * 512))
    products = ("q_latent", "q", "kv_latent", "k_rope", "k", "v", "output")
    assert sum(rows[stage].cost.flops for stage in products) == 5 * made
    assert group.parameters == made // 2


def test_a_cache_of_latent_vectors_holds_neither_k_nor_v() -> None:
    latent = Latent(q_rank=24, kv_rank=20, d_nope=32, d_rope=16)
    geometry = replace(FULL, kv_heads=8, d_k=48, latent=latent)
    (group,) = looked(checkpoint(layer(0, geometry)), seq=1, key_seq=100).groups
    rows = {row.step.stage: row for row in group.rows}
    assert rows["kv_latent"].cost.flops == 2 * 512 * 20
    assert rows["k"].cost.flops == 2 * 20 * 100 * 8 * 32
    assert rows["v"].cost.flops == 2 * 20 * 100 * 8 * 64
    assert rows["k_rotated"].cost.flops == 3 * 16
    assert "the cache holds kv_latent" in rows["k"].step.formula


def test_a_gate_is_made_by_the_other_half_of_the_queries_matrix() -> None:
    (plain,) = looked(checkpoint(layer(0, FULL)), seq=5).groups
    (group,) = looked(checkpoint(layer(0, replace(FULL, gated=True))), seq=5).groups
    rows = {row.step.stage: row for row in group.rows}
    assert rows["gate"].cost == rows["q"].cost
    assert rows["gated"].step.shape == rows["merged"].step.shape == (1, 5, 512)
    assert rows["output"].step.formula == "gated · W_o"
    assert group.parameters == plain.parameters + 512 * 512
    assert group.cost.flops == plain.cost.flops + rows["q"].cost.flops + 4 * 5 * 512


def test_without_tensors_nothing_is_decided() -> None:
    assert looked(checkpoint(layer(0, FULL))).decided
    assert not looked(checkpoint(layer(0, FULL), tensors=0)).decided


def test_added_positions_are_those_of_the_first_layer() -> None:
    result = looked(checkpoint(layer(0, replace(FULL, positions="learned"))))
    assert result.groups[0].rows[1].step.stage == "q"
    assert result.errors == ()


def test_a_mask_in_place_of_theirs() -> None:
    (group,) = looked(checkpoint(layer(0, WINDOWED)), masks=("causal & sink(1)",), seq=8).groups
    assert group.sizes.mask == "causal & sink(1)"
    assert group.visible == 8 * 8


def test_only_some_layers() -> None:
    found = checkpoint(*(layer(i, FULL) for i in range(4)))
    assert looked(found, layers=(1, 3)).groups[0].layers == (1, 3)
    with pytest.raises(InputError, match="--layer names 4, and there are 4 layers, 0 to 3"):
        looked(found, layers=(4,))


def test_problems_of_the_folder_come_first_and_the_unknown_is_undecided() -> None:
    problem = Problem("missing-tensor", "q_proj is missing", layer="model.layers.0")
    found = checkpoint(layer(0, replace(FULL, d_k=12)), problems=(problem,), known=False)
    result = looked(found)
    assert result.problems[0] is problem
    assert not result.decided
    assert not result.to_dict()["fits"]


@pytest.mark.parametrize(
    "more, masks",
    [
        ({}, ("causal",)),
        ({"window": 9}, ("causal", "window(9)")),
        ({"causal": False, "window": 9}, ("window(9, both)",)),
        ({"causal": False}, ()),
        ({"chunk": 64}, ("causal", "block(64)")),
    ],
)
def test_masks_of_layers(more: dict[str, Any], masks: tuple[str, ...]) -> None:
    assert mask_of(replace(FULL, **more)) == masks
