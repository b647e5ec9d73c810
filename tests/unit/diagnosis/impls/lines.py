"""Attention in styles that a line-by-line trace must read; right unless a name says otherwise."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def plain(q, k, v, mask=None):
    """mask: True = may attend"""
    scores = q @ k.transpose(-2, -1)
    scaled = scores / math.sqrt(q.size(-1))
    if mask is not None:
        scaled = scaled.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scaled, dim=-1)
    return weights @ v


def in_place(q, k, v, mask=None):
    """mask: True = may attend"""
    s = torch.einsum("...id,...jd->...ij", q, k)
    s *= q.shape[-1] ** -0.5
    if mask is not None:
        s.masked_fill_(mask.logical_not(), -1e9)
    s -= s.amax(-1, keepdim=True)
    s.exp_()
    s /= s.sum(-1, keepdim=True)
    return torch.matmul(s, v)


def one_call(q, k, v):
    """q, k, v: (batch, heads, tokens, dim)"""
    out = F.scaled_dot_product_attention(q, k, v)
    return out


def numpy_steps(q, k, v):
    """q, k, v: (tokens, dim)"""
    logits = q.dot(k.T)
    logits /= np.sqrt(q.shape[1])
    peak = logits.max(axis=1, keepdims=True)
    powers = np.exp(logits - peak)
    probs = powers / powers.sum(axis=1, keepdims=True)
    return probs.dot(v)


def numpy_rows(q, k, v):
    """q, k, v: (tokens, dim)"""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        row = k @ q[i] / np.sqrt(q.shape[1])
        e = np.exp(row - row.max())
        out[i] = (e / e.sum()) @ v
    return out


def no_library(q, k, v):
    result = []
    for one in q:
        s = [sum(a * b for a, b in zip(one, other)) / math.sqrt(len(one)) for other in k]
        e = [math.exp(x - max(s)) for x in s]
        w = [x / sum(e) for x in e]
        result.append([sum(a * row[i] for a, row in zip(w, v)) for i in range(len(v[0]))])
    return result


def tiles(q, k, v):
    """q, k, v: (batch, heads, tokens, dim); two queries at a time"""
    parts = []
    for start in range(0, q.shape[2], 2):
        tile = q[:, :, start : start + 2] @ k.mT * q.shape[-1] ** -0.5
        parts.append(tile.softmax(-1) @ v)
    return torch.cat(parts, 2)


class Layer(nn.Module):
    def __init__(self, d_model=24, n_heads=3):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.o_proj = nn.Linear(d_model, d_model)

    def split(self, t):
        return t.view(*t.shape[:2], self.n_heads, -1).transpose(1, 2)

    def forward(self, x):
        q = self.split(self.q_proj(x))
        k = self.split(self.k_proj(x))
        v = self.split(self.v_proj(x))
        p = F.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
        z = (p @ v).transpose(1, 2).contiguous()
        z = z.view(*x.shape)
        return self.o_proj(z)


class HeadByHead(Layer):
    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        d = q.shape[-1] // self.n_heads
        outs = []
        for h in range(self.n_heads):
            at = slice(h * d, (h + 1) * d)
            dots = torch.bmm(q[..., at], k[..., at].transpose(1, 2)) * d**-0.5
            attn = dots.softmax(-1)
            outs.append(attn @ v[..., at])
        return self.o_proj(torch.cat(outs, -1))


class Fused(nn.Module):
    def __init__(self, dim=24, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q = q * q.shape[-1] ** -0.5
        attn = (q @ k.mT).softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Library(nn.Module):
    def __init__(self, embed_dim=24, num_heads=3):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, x):
        out, _ = self.attn(x, x, x)
        return out


# Wrong from one line on.


def unscaled(q, k, v):
    """q, k, v: (batch, heads, tokens, dim)"""
    energy = q @ k.transpose(-2, -1)
    weights = torch.softmax(energy, dim=-1)
    return weights @ v


def over_queries(q, k, v):
    """q, k, v: (batch, heads, tokens, dim)"""
    energy = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    weights = energy.softmax(dim=-2)
    return weights @ v


def keys_as_values(q, k, v):
    """q, k, v: (batch, heads, tokens, dim)"""
    weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
    return weights @ k


def one_key_short(q, k, v):
    """q, k, v: (tokens, dim)"""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        row = np.array([q[i] @ k[j] for j in range(len(k) - 1)]) / np.sqrt(q.shape[1])
        e = np.exp(row - row.max())
        out[i] = (e / e.sum()) @ v[:-1]
    return out


class ViewedHeads(Layer):
    def split(self, t):
        return t.view(t.shape[0], self.n_heads, -1, t.shape[-1] // self.n_heads)


class Unmerged(Layer):
    def forward(self, x):
        q, k, v = (self.split(f(x)) for f in (self.q_proj, self.k_proj, self.v_proj))
        z = F.scaled_dot_product_attention(q, k, v)
        z = z.reshape(*x.shape)
        return self.o_proj(z)


class NoOutput(Layer):
    def forward(self, x):
        q, k, v = (self.split(f(x)) for f in (self.q_proj, self.k_proj, self.v_proj))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class NotContiguous(Layer):
    def forward(self, x):
        q, k, v = (self.split(f(x)) for f in (self.q_proj, self.k_proj, self.v_proj))
        p = (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)
        z = (p @ v).transpose(1, 2)
        z = z.view(*x.shape)
        return self.o_proj(z)


def raises_at_once(q, k, v):
    """q, k, v: (batch, heads, tokens, dim)"""
    scores = q @ k.mT
    raise ValueError("not done")


def halved(q, k, v):
    """q, k, v: (batch, heads, tokens, dim)"""
    s = (q.half() @ k.half().mT).to(q.dtype) / q.shape[-1] ** 0.5
    return s.softmax(-1) @ v
