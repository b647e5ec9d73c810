"""Attention that hides keys by itself, each with one mistake; those called right have none."""

import math

import torch
import torch.nn.functional as F


def _causally(q, k, v, hidden):
    return (q @ k.mT / math.sqrt(q.shape[-1]) + hidden).softmax(-1) @ v


def causal_right(q, k, v):
    L, S = q.shape[-2], k.shape[-2]
    return _causally(q, k, v, torch.full((L, S), -torch.inf).triu(S - L + 1))


def causal_upper_left(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_missing(q, k, v):
    return _causally(q, k, v, 0.0)


def causal_excludes_self(q, k, v):
    L = q.shape[-2]
    i = torch.arange(L)
    return _causally(q, k, v, torch.where(i[:, None] > i[None], 0.0, -1e9))


def causal_leaks_next(q, k, v):
    L = q.shape[-2]
    i = torch.arange(L)
    return _causally(q, k, v, torch.where(i[:, None] + 1 >= i[None], 0.0, -torch.inf))


def causal_reversed(q, k, v):
    L = q.shape[-2]
    return _causally(q, k, v, torch.full((L, L), -torch.inf).tril(-1))


def window_right(q, k, v):
    i = torch.arange(q.shape[-2])
    far = i[:, None] - i[None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(far >= 0) & (far < 3))


def window_off_by_one(q, k, v):
    i = torch.arange(q.shape[-2])
    far = i[:, None] - i[None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(far >= 0) & (far < 2))


def capped_right(q, k, v):
    s = torch.tanh(q @ k.mT / math.sqrt(q.shape[-1]) / 2.0) * 2.0
    L = q.shape[-2]
    return s.masked_fill(torch.ones(L, L).triu(1).bool(), -torch.inf).softmax(-1) @ v


def softcap_after_mask(q, k, v):
    L = q.shape[-2]
    s = q @ k.mT / math.sqrt(q.shape[-1])
    s = s.masked_fill(torch.ones(L, L).triu(1).bool(), -torch.inf)
    return (torch.tanh(s / 2.0) * 2.0).softmax(-1) @ v
