"""The kernel on torch tensors: masks as tensors, views, gradients, threads, precisions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from attn_cli.errors import InputError
from attn_cli.masks.causal import Causal
from attn_cli.stats import STATISTICS
from attn_cli.stats.mean_distance import Distance
from attn_cli.tiled import products as products_module
from attn_cli.tiled.crew import Crew, crew
from attn_cli.tiled.kernel import block_sizes, tile_bytes, tiled_attention
from attn_cli.tiled.products import multiplies

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def drawn(
    queries: int = 37, keys: int = 53, *, heads: int = 4, kv_heads: int = 2, **kind: Any
) -> Tensors:
    generator = torch.Generator().manual_seed(queries + keys)
    return (
        torch.randn(2, heads, queries, 8, generator=generator).to(**kind),
        torch.randn(2, kv_heads, keys, 8, generator=generator).to(**kind),
        torch.randn(2, kv_heads, keys, 5, generator=generator).to(**kind),
    )


def weights_of(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    scores = (q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT).double() / 8**0.5
    scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1).nan_to_num(0.0)


@pytest.mark.parametrize("shape", [(37, 53), (1, 37, 53), (2, 1, 37, 53), (2, 4, 1, 53)])
@pytest.mark.parametrize("block", [None, 8])
def test_a_mask_may_be_a_bool_tensor_that_broadcasts(shape: tuple[int, ...], block: int) -> None:
    q, k, v = drawn(dtype=torch.float64)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.4
    mask[..., :1, :] = len(shape) == 4 and shape[2] == 1  # row 0 is empty where there are rows
    made = tiled_attention(q, k, v, mask=mask, received=True, block=block)
    right = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    torch.testing.assert_close(made.context, right.nan_to_num(0.0), rtol=1e-12, atol=1e-13)
    weights = weights_of(q, k, mask.expand(2, 4, 37, 53))
    torch.testing.assert_close(made.received, weights.sum(2), rtol=1e-12, atol=1e-13)
    assert torch.equal(made.rows.empty, ~mask.expand(2, 4, 37, 53).any(-1))


@pytest.mark.parametrize("hidden", [float("-inf"), torch.finfo(torch.float32).min])
def test_an_additive_mask_and_a_bias_are_tensors(hidden: float) -> None:
    q, k, v = drawn(dtype=torch.float32)
    additive = torch.where(torch.arange(53) < 40, 0.0, hidden)
    bias = torch.linspace(-2, 2, 4)[:, None, None].expand(4, 37, 53)
    made = tiled_attention(q, k, v, additive=additive, bias=bias, block=16)
    right = F.scaled_dot_product_attention(q, k, v, attn_mask=additive + bias, enable_gqa=True)
    torch.testing.assert_close(made.context, right)
    assert int(made.rows.visible.max()) == 40


def test_a_mask_of_numbers_is_refused_and_not_read_as_bool() -> None:
    q, k, v = drawn(dtype=torch.float32)
    with pytest.raises(InputError, match="expected bool, True = may attend"):
        tiled_attention(q, k, v, mask=torch.zeros(37, 53))


def test_rows_are_those_of_the_matrix() -> None:
    q, k, v = drawn(50, 50, dtype=torch.float64)
    terms = dict(STATISTICS["mean_distance"].terms)
    made = tiled_attention(q, k, v, mask=Causal(), terms=terms, top=2, block=16)
    mask = torch.ones(50, 50, dtype=torch.bool).tril()
    w, rows = weights_of(q, k, mask.expand(2, 4, 50, 50)), made.rows
    away = (torch.arange(50)[:, None] - torch.arange(50)).abs()
    torch.testing.assert_close(rows.expected["distance"], (w * away).sum(-1))
    entropy = rows.weight_sum * rows.log_z - rows.shifted
    torch.testing.assert_close(entropy, torch.special.entr(w).sum(-1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close((-rows.log_z).exp(), w.amax(-1))
    assert made.top_keys is not None
    assert made.top_weights is not None
    assert torch.equal(made.top_keys[..., 1:, :], w.topk(2).indices[..., 1:, :])
    assert made.top_keys[0, 0, 0].tolist() == [0, -1]
    assert made.top_weights[0, 0, 0, 1].isnan()


def test_views_and_gradients_go_in_and_no_gradient_comes_out() -> None:
    wide = torch.randn(2, 30, 4, 16, dtype=torch.float64, requires_grad=True)
    q = wide.transpose(1, 2)[..., ::2]
    made = tiled_attention(q, q, q, block=7)
    torch.testing.assert_close(made.context, F.scaled_dot_product_attention(q, q, q).detach())
    assert not made.context.requires_grad


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_how_many_work_changes_nothing_and_torch_keeps_its_threads(threads: int) -> None:
    q, k, v = drawn(dtype=torch.float32)
    before = torch.get_num_threads()
    alone = tiled_attention(q, k, v, mask=Causal(), block=8, received=True)
    torch.set_num_threads(threads)
    try:
        made = tiled_attention(q, k, v, mask=Causal(), block=8, received=True)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(made.context, alone.context)
    assert torch.equal(made.rows.lse, alone.rows.lse)
    torch.testing.assert_close(made.received, alone.received, rtol=1e-14, atol=0)


def test_a_worker_that_fails_ends_the_run_and_stops_the_others() -> None:
    done: list[int] = []

    def task(number: int, worker: int) -> None:
        if worker == 1:
            raise ValueError("lost")
        done.append(number)

    workers = Crew(2)
    try:
        tasks = [lambda worker, number=number: task(number, worker) for number in range(200)]
        with pytest.raises(ValueError, match="lost"):
            workers.run(tasks, lambda: None)
    finally:
        workers.close()
    assert len(done) <= 100


def test_a_crew_leaves_the_caller_alone_away_from_the_cpu() -> None:
    with crew(torch.device("cuda")) as workers:
        assert workers.size == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_machine_that_multiplies_halves_gives_what_widening_gives(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of products are kept in float32 either way; an ulp may part them."""
    q, k, v = drawn(dtype=dtype)
    made = {}
    for native in (False, True):
        monkeypatch.setattr(products_module, "multiplies", lambda device, dtype, it=native: it)
        made[native] = tiled_attention(q, k, v, mask=Causal(), block=16).context
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(made[True], made[False], rtol=4 * eps, atol=4 * eps)


def test_float16_sums_that_would_overflow_are_kept_wide() -> None:
    q, k, v = drawn(8, 400, dtype=torch.float16)
    made = tiled_attention(q * 0, k, torch.full_like(v, 60000.0))
    torch.testing.assert_close(made.context, torch.full_like(made.context, 60000.0))


def test_float32_and_float64_are_always_multiplied_by_the_machine() -> None:
    assert multiplies(torch.device("cpu"), torch.float32)
    assert multiplies(torch.device("cpu"), torch.float64)
    assert multiplies(torch.device("cuda"), torch.bfloat16)


@pytest.mark.parametrize("queries, keys", [(range(5, 9), range(6)), (range(3), range(2, 8))])
def test_a_linear_term_says_what_it_computes(queries: range, keys: range) -> None:
    line = Distance().linear(queries, keys)
    assert line is not None
    constant, by_query, by_key = line
    for q in queries:
        for k in keys:
            assert constant + by_query * q + by_key * k == abs(q - k)
    assert Distance().linear(range(3, 6), range(2, 7)) is None


def test_tiles_are_never_larger_than_the_scores_and_their_memory_does_not_grow() -> None:
    assert block_sizes((1, 1, 3, 5), None) == (3, 5)
    assert block_sizes((1, 1, 10**6, 10**6), 64) == (64, 64)
    short, long = ((1, 8, n, n) for n in (2**14, 2**20))
    assert tile_bytes(short, 4, None) == tile_bytes(long, 4, None)
