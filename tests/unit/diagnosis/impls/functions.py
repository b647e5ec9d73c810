"""Attention as functions of q, k and v, as people write them; all right."""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import einsum


def single_head_numpy(Q, K, V):
    """Q is (n, d), K and V are (m, d)."""
    logits = Q.dot(K.T) / math.sqrt(Q.shape[1])
    logits = logits - np.max(logits, axis=1, keepdims=True)
    P = np.exp(logits)
    P = P / np.sum(P, axis=1, keepdims=True)
    return P.dot(V)


def batched_numpy(q, k, v, mask=None):
    """q, k, v: (batch, tokens, dim); mask: (batch, tokens, tokens), True = may attend."""
    scores = np.matmul(q, np.swapaxes(k, 1, 2)) / np.sqrt(q.shape[2])
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    scores = scores - scores.max(axis=2, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=2, keepdims=True)
    return np.matmul(weights, v), weights


def stable_softmax(x):
    e = [math.exp(value - max(x)) for value in x]
    return [value / sum(e) for value in e]


def plain_python(queries, keys, values):
    """No library at all: lists of lists."""
    result = []
    for q in queries:
        scale = 1 / math.sqrt(len(q))
        weights = stable_softmax([scale * sum(x * y for x, y in zip(q, k)) for k in keys])
        result.append([sum(w * v[i] for w, v in zip(weights, values)) for i in range(len(values[0]))])
    return result


def any_rank(query, key, value, attn_mask=None, dropout_p=0.0):
    # works with any number of leading dimensions; attn_mask: True = visible
    sim = query @ key.mT * query.size(-1) ** -0.5
    if attn_mask is not None:
        sim = sim.masked_fill(attn_mask.logical_not(), -math.inf)
    return F.dropout(sim.softmax(-1), dropout_p) @ value


def weights_first(q, k, v):
    """(B, H, L, d) tensors; gives (weights, output)."""
    p = einsum("bhid,bhjd->bhij", q, k).div(math.sqrt(q.shape[-1])).softmax(dim=-1)
    return p, einsum("bhij,bhjd->bhid", p, v)


def heads_third(q, k, v, key_padding_mask=None):
    """q: (B, L, H, d), as flash-attention has it. key_padding_mask: (B, L), True = padding."""
    s = torch.einsum("blhd,bshd->bhls", q, k) / q.shape[3] ** 0.5
    if key_padding_mask is not None:
        s = s.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
    return torch.einsum("bhls,bshd->blhd", s.softmax(3), v)


def in_a_dict(q, k, v, additive_mask=None):
    """A dictionary comes back. The mask is added to the scores: 0 or -inf."""
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    if additive_mask is not None:
        scores = scores + additive_mask
    weights = torch.softmax(scores, dim=-1)
    return {"attention": weights, "context": weights @ v, "n": 3}


@dataclass
class Result:
    hidden: torch.Tensor
    probs: torch.Tensor


def in_a_dataclass(q, k, v) -> Result:
    """q, k, v: (batch, tokens, dim)."""
    probs = torch.baddbmm(torch.zeros(1), q, k.transpose(1, 2), alpha=q.shape[2] ** -0.5).softmax(2)
    return Result(hidden=torch.bmm(probs, v), probs=probs)


def grouped(q, k, v):
    """q (B, H, L, d), k and v (B, H, L, d) with fewer heads: query heads share them."""
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def split_inside(q, k, v, num_heads):
    """(batch, tokens, d_model) each; the heads are made in here, without projections."""
    B, L, D = q.shape
    q, k, v = (t.reshape(B, -1, num_heads, D // num_heads).transpose(1, 2) for t in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v)
    return out.transpose(1, 2).reshape(B, L, D)


def with_matrices(x, W_q, W_k, W_v):
    """x: (tokens, d_model); the matrices are (d_model, d_model)."""
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    s = q @ k.T / np.sqrt(k.shape[1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def of_itself(x):
    """x: (batch, tokens, dim) attends to itself; queries, keys and values are x."""
    weights = torch.softmax(x @ x.transpose(1, 2) / x.shape[2] ** 0.5, dim=2)
    return weights @ x


def make_layer(d_model, n_heads):
    """A factory of modules."""
    return torch.nn.MultiheadAttention(d_model, n_heads, batch_first=True)


def with_none_behind(q, k, v, need_weights=False):
    p = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return torch.matmul(p, v), p if need_weights else None
