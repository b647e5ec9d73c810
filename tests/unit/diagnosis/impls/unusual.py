"""Right code in ways that are easily misread; each is said to be right by a test."""

import math

import numpy as np
import torch
from torch import nn


class Tied(nn.Module):
    """Keys and values come out of one matrix, known by two names."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = self.k_proj
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x):
        layers = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in layers)
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


class Configured(nn.Module):
    """attention_mask is (B, 1, T, T): 0 or a very negative number, added to the scores."""

    def __init__(self, config):
        super().__init__()
        self.heads = config.num_heads
        self.qkv = nn.Linear(config.dim, 3 * config.dim)
        self.proj = nn.Linear(config.dim, config.dim)

    def forward(self, x, attention_mask=None):
        packed = self.qkv(x).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in packed)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores + attention_mask
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class HeadByHead(nn.Module):
    """As in GPT-NeoX: q, k and v of each head in turn."""

    def __init__(self, hidden_size=24, num_heads=3):
        super().__init__()
        self.heads = num_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, x):
        packed = self.query_key_value(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = packed.chunk(3, -1)
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
        return self.dense((weights @ v).transpose(1, 2).flatten(2))


def must_have_its_mask(q, k, v, mask):
    """mask: bool (Tq, Tk), True = hidden."""
    scores = np.where(mask.astype(bool), -np.inf, q @ k.T / np.sqrt(q.shape[1]))
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


def takes_float32_only(q, k, v):
    """(B, T, d)"""
    zeros = torch.zeros(q.shape[0], q.shape[1], k.shape[1])
    scores = torch.baddbmm(zeros, q.float(), k.float().transpose(1, 2), alpha=q.shape[2] ** -0.5)
    return torch.bmm(scores.softmax(2), v.float())


def has_settings(q, k, v, num_heads=2, window_size=3, softcap=4.0):
    """Causal; (B, T, C), the heads side by side."""
    q, k, v = (t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (q, k, v))
    scores = softcap * torch.tanh(q @ k.mT / math.sqrt(q.shape[-1]) / softcap)
    at = torch.arange(q.shape[2])
    seen = (at[None] <= at[:, None]) & (at[:, None] - at[None] < window_size)
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)


def softmax_one(q, k, v):
    """softmax1: a row may attend to nothing."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    top = scores.amax(-1, keepdim=True).clamp(min=0)
    e = (scores - top).exp()
    return e / (e.sum(-1, keepdim=True) + (-top).exp()) @ v


def of_lists(q, k, v):
    """Causal, with the queries last: a query before all keys has nothing to take the largest of."""
    rows = []
    for i, query in enumerate(q):
        seen = len(k) - len(q) + i + 1
        scores = [sum(a * b for a, b in zip(query, key)) for key in k[: max(seen, 0)]]
        scores = [s / math.sqrt(len(query)) for s in scores]
        e = [math.exp(s - max(scores)) for s in scores]
        total = sum(e) / 1 if e else max(e)
        rows.append([sum(w * row[c] for w, row in zip(e, v)) / total for c in range(len(v[0]))])
    return rows
