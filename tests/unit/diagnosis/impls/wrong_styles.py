"""Code with one mistake each, of which nothing is said but how it is built."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Compares(nn.Module):
    """A triangle made by comparing positions, and a scale behind softmax."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.attn_in = nn.Linear(n_embd, 3 * n_embd)
        self.attn_out = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        parts = self.attn_in(x).tensor_split(3, dim=-1)
        q, k, v = (part.reshape(B, T, self.n_head, -1).swapaxes(1, 2) for part in parts)
        places = torch.arange(T)
        logits = torch.where(places[:, None] >= places, q @ k.mT, -torch.inf)
        probs = logits.softmax(-1).mul(q.size(-1) ** -0.5)
        return self.attn_out((probs @ v).swapaxes(1, 2).reshape(B, T, C))


def next_too(q, k, v):
    i, j = np.ogrid[: len(q), : len(k)]
    s = np.where(j <= i + 1, q @ k.T / np.sqrt(q.shape[1]), -1e9)
    e = np.exp(s - s.max(1, keepdims=True))
    return e @ v / e.sum(1, keepdims=True)


class Grouped(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.hd = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, past_kv=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.n_heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.n_kv_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.n_kv_heads, self.hd).transpose(1, 2)
        if past_kv is not None:
            k, v = (torch.cat((old, new), 2) for old, new in zip(past_kv, (k, v), strict=True))
        kept = (k, v)
        k, v = (z.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for z in kept)
        i, j = torch.arange(t).view(-1, 1), torch.arange(k.size(2)).view(1, -1)
        s = (q @ k.mT * self.hd**-0.5).masked_fill(j > i, float("-inf"))
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1)), kept


def padded(q, k, v, key_mask=None, is_causal=True):
    """Causal. key_mask: (B, T), True = real token."""
    mask = None if key_mask is None else key_mask[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def added(q, k, v, mask=None):
    """mask: (B, 1, Tq, Tk), 1.0 = may attend"""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Packed(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def attend(self, x, bias):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(y.transpose(1, 2).flatten(2))


class OnOtherAxes(Packed):
    def forward(self, x, pad=None):
        """pad (B, T), True = padding"""
        return self.attend(x, None if pad is None else ~pad)


class OnQueries(Packed):
    def forward(self, x, valid=None):
        """valid (B, T): True = token"""
        if valid is None:
            return self.attend(x, None)
        bias = torch.zeros(len(x), 1, x.shape[1], x.shape[1], dtype=x.dtype)
        return self.attend(x, bias.masked_fill(~valid.view(len(x), 1, -1, 1), -1e9))


def shows_scores(q, k, v, mask=None):
    """mask: True = may attend. Gives output and attention weights."""
    attn = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        attn = attn.masked_fill(~mask, -1e9)
    return attn.softmax(-1) @ v, attn


def one_softmax(q, k, v):
    s = q @ k.mT / q.shape[-1] ** 0.5
    return s.flatten(2).softmax(-1).view_as(s) @ v


def other_rows(q, k, v):
    s = np.einsum("bid,bjd->bij", q, k) / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.einsum("bij,bjd->bid", e / e.sum(axis=-1)[:, None, :], v)


def all_axes(q, k, v):
    """(..., tokens, dim) arrays"""
    s = np.matmul(q, np.transpose(k)) / np.sqrt(q.shape[-1])
    s = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.matmul(s / s.sum(axis=-1, keepdims=True), v)


def logs(q, k, v, mask=None):
    """mask: added, 0 or -inf"""
    logits = torch.bmm(q, k.mT) / q.size(-1) ** 0.5
    if mask is not None:
        logits = logits + mask.clamp(min=-1e4)
    return torch.bmm(F.log_softmax(logits, dim=-1), v)


_SCORES = {}


def remembers(q, k, v):
    if (len(q), len(k)) not in _SCORES:
        _SCORES[len(q), len(k)] = q @ k.T / np.sqrt(q.shape[1])
    s = _SCORES[len(q), len(k)]
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ v / p.sum(1, keepdims=True)


def capped(q, k, v, mask=None, softcap=5.0):
    """mask True: visible"""
    s = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        s = torch.where(mask, s, -1e9)
    return ((s / softcap).tanh() * softcap).softmax(-1) @ v


def fused_product(query, key, value):
    logits = torch.baddbmm(torch.zeros(1, dtype=query.dtype), query, key.transpose(1, 2))
    return torch.bmm(logits.softmax(-1), value)


def looks_back(q, k, v):
    """Right, and causal; no name says so."""
    i, j = np.ogrid[: len(q), : len(k)]
    s = np.where(j <= i, q @ k.T / np.sqrt(q.shape[1]), -1e9)
    e = np.exp(s - s.max(1, keepdims=True))
    return e @ v / e.sum(1, keepdims=True)


def beside(q, k, v):
    """Sees itself and the tokens beside it, so it is not causal."""
    i, j = np.ogrid[: len(q), : len(k)]
    s = np.where(abs(i - j) <= 1, q @ k.T / np.sqrt(q.shape[1]), -1e9)
    e = np.exp(s - s.max(1, keepdims=True))
    return e @ v / e.sum(1, keepdims=True)
