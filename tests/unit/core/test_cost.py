"""Costs against counts from elsewhere: torch's own counter, by hand, real layers' parameters."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attn_cli.core.cost import (
    Cost,
    Inner,
    Work,
    cached_numbers,
    cached_tokens,
    cost_of,
    first_where,
    parameters,
    total,
    wall,
    works,
)
from attn_cli.core.geometry import Geometry, Latent
from attn_cli.core.trace import SCORE_AXES, StageShape

B, H, HKV, L, S, DK, DV, DM = 2, 6, 3, 5, 7, 4, 10, 11


def steps() -> tuple[StageShape, ...]:
    """The products of a layer whose sizes all differ."""
    shapes = {
        "q": (("batch", "head", "query", "d_k"), (B, H, L, DK)),
        "k": (("batch", "head", "key", "d_k"), (B, HKV, S, DK)),
        "v": (("batch", "head", "key", "d_v"), (B, HKV, S, DV)),
        "scores": (SCORE_AXES, (B, H, L, S)),
        "context": (("batch", "head", "query", "d_v"), (B, H, L, DV)),
        "output": (("batch", "query", "d_model"), (B, L, DM)),
    }
    return tuple(StageShape(name, *each, "float32", "") for name, each in shapes.items())


def test_products_count_as_torch_counts_them() -> None:
    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, device="meta")

    with FlopCounterMode(display=False) as counter:
        x, y = empty(B, L, DM), empty(B, S, DM)
        q = (x @ empty(DM, H * DK)).view(B, L, H, DK).transpose(1, 2)
        k = (y @ empty(DM, HKV * DK)).view(B, S, HKV, DK).transpose(1, 2)
        v = (y @ empty(DM, HKV * DV)).view(B, S, HKV, DV).transpose(1, 2)
        k, v = (array.repeat_interleave(H // HKV, 1) for array in (k, v))
        context = (q @ k.transpose(-1, -2)) @ v
        context.transpose(1, 2).reshape(B, L, H * DV) @ empty(H * DV, DM)
    done = works(steps(), Inner(q=DM, k=DM, v=DM, output=H * DV), frozenset())
    assert sum(work.flops for work in done) == counter.get_total_flops()


def test_a_bias_is_one_operation_a_number() -> None:
    with_biases, without = (
        works(steps(), Inner(q=DM, k=DM, v=DM, output=H * DV), frozenset(names))
        for names in ("qkvo", "")
    )
    more = sum(work.flops for work in with_biases) - sum(work.flops for work in without)
    assert more == B * (L * H * DK + S * HKV * (DK + DV) + L * DM)


@pytest.mark.parametrize("stage, each", [("scaled", 1), ("softcapped", 3), ("weights", 5)])
def test_operations_on_scores(stage: str, each: int) -> None:
    shape = StageShape(stage, SCORE_AXES, (B, H, L, S), "float32", "")
    scores = StageShape("scores", SCORE_AXES, (B, H, L, S), "float32", "")
    q = StageShape("q", ("batch", "head", "query", "d_k"), (B, H, L, DK), "float32", "")
    *_, work = works([q, scores, shape], Inner(), frozenset())
    assert work.flops == B * H * L * S * each
    assert work.flops_of(13) == 13 * each


def test_visible_pairs_alone() -> None:
    scores, context = works(steps(), Inner(), frozenset())[3:5]
    assert scores.flops_of(100) == 100 * 2 * DK
    assert context.flops_of(100) == 100 * 2 * DV
    assert cost_of(scores, 2, 100) == Cost(B * H * L * S * 2, scores.flops, 200, 100 * 2 * DK)
    assert cost_of(context, 2, None).masked_flops is None


def test_all_pairs_visible_is_dense() -> None:
    for work in works(steps(), Inner(q=DM, k=DM, v=DM, output=H * DV), frozenset("q")):
        cost = cost_of(work, 4, B * H * L * S)
        assert (cost.masked_bytes, cost.masked_flops) == (cost.bytes, cost.flops)


def test_a_sum_with_something_unknown_is_unknown() -> None:
    summed = total([Cost(1, 2, 3, 4), Cost(1, 2, None, 4)])
    assert summed == Cost(2, 4, None, 8)


def test_longer_sequences() -> None:
    q, k, _, scores, context, output = works(steps(), Inner(DM, DM, DM, H * DV), frozenset())
    longer = {"query": 2 * L, "key": 2 * S}
    for work, factor in ((q, 2), (k, 2), (scores, 4), (context, 4), (output, 2)):
        assert work.at(longer).flops == factor * work.flops


def test_keys_from_a_cache_cost_nothing() -> None:
    axes, shape = ("batch", "head", "key", "d_k"), (B, HKV, S, DK)
    step = StageShape("k", axes, shape, "float32", "")
    work = Work(step=step, inner=DM, new=2)
    assert work.flops == B * HKV * 2 * DK * 2 * DM
    assert work.at({"key": 100}).flops == work.flops
    assert work.at({"key": 100, "query": 4}).flops == 2 * work.flops


def test_a_share_of_the_numbers() -> None:
    step = StageShape("k", ("batch", "head", "key", "d_k"), (B, HKV, S, 6), "float32", "")
    assert Work(step=step, inner=DM, share=Fraction(4, 6)).flops == B * HKV * S * 4 * 2 * DM


def test_where_the_scores_take_over() -> None:
    square = [
        StageShape("q", ("batch", "head", "query", "d_k"), (1, 2, 8, 64), "float32", ""),
        StageShape("scores", SCORE_AXES, (1, 2, 8, 8), "float32", ""),
    ]
    found = wall(works(square, Inner(), frozenset()), 4)
    assert (found.stages, found.bytes, found.takes_over) == (("q",), 2 * 8 * 64 * 4, 64)


def test_one_query_never_makes_the_scores_the_largest() -> None:
    decoding = [
        StageShape("q", ("batch", "head", "query", "d_k"), (1, 2, 1, 64), "float32", ""),
        StageShape("k", ("batch", "head", "key", "d_k"), (1, 2, 99, 64), "float32", ""),
        StageShape("scores", SCORE_AXES, (1, 2, 1, 99), "float32", ""),
    ]
    found = wall(works(decoding, Inner(), frozenset()), 4)
    assert (found.stages, found.varies, found.takes_over) == (("k",), "keys", None)


def test_first_where() -> None:
    def first_from(least: int) -> int | None:
        return first_where(lambda n: n >= least, 9)

    assert list(map(first_from, (1, 5, 9, 10))) == [1, 5, 9, None]


def test_parameters_are_those_of_a_real_layer() -> None:
    module = torch.nn.MultiheadAttention(24, 3, device="meta")
    layer = Geometry(
        heads=3, kv_heads=3, d_k=8, d_v=8, d_model=24, d_out=24, projected=True,
        biases=frozenset("qkvo"),
    )  # fmt: skip
    assert parameters(layer) == sum(each.numel() for each in module.parameters())


def test_parameters_of_latent_attention_are_those_of_transformers() -> None:
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

    config = DeepseekV3Config()
    with torch.device("meta"):
        module = DeepseekV3Attention(config, 0)
    matrices = [each for each in module.parameters() if each.ndim == 2]
    layer = Geometry(
        heads=128, kv_heads=128, d_k=192, d_v=128, d_model=7168, d_out=7168, projected=True,
        latent=Latent(q_rank=1536, kv_rank=512, d_nope=128, d_rope=64),
    )  # fmt: skip
    assert parameters(layer) == sum(each.numel() for each in matrices)
    assert cached_numbers(layer) == 512 + 64


def test_a_cache_keeps_no_more_than_is_seen() -> None:
    layer = Geometry(heads=8, kv_heads=2, d_k=64, d_v=32)
    assert cached_numbers(layer) == 2 * (64 + 32)
    assert cached_tokens(layer, 1000) == 1000
    windowed = Geometry(heads=8, kv_heads=2, d_k=64, d_v=32, window=128)
    assert (cached_tokens(windowed, 1000), cached_tokens(windowed, 100)) == (128, 100)
