"""Modules that are built from a configuration, or remember; all right."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Config:
    n_head = 4
    n_embd = 32
    block_size = 32
    dropout = 0.0


@dataclass
class LayerArgs:
    dim: int
    n_heads: int
    n_kv_heads: int = 2
    max_seq_len: int = 64


class Conv1D(nn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        return x @ self.weight + self.bias


class GPT(nn.Module):
    """config is a plain class."""

    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.resid_dropout = nn.Dropout(config.dropout)
        mask = torch.ones(config.block_size, config.block_size, dtype=torch.bool).tril()
        self.register_buffer("mask", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = q @ k.transpose(-2, -1) * (k.size(-1) ** -0.5)
        att = att.masked_fill(~self.mask[:, :, :T, :T], float("-inf")).softmax(dim=-1)
        return self.resid_dropout(self.c_proj((att @ v).transpose(1, 2).reshape(B, T, C)))


class Llama(nn.Module):
    """A dataclass for arguments, and pairs that are turned as complex numbers (interleaved)."""

    def __init__(self, args: LayerArgs):
        super().__init__()
        self.n_heads, self.n_kv = args.n_heads, args.n_kv_heads
        self.hd = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, self.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(self.n_heads * self.hd, args.dim, bias=False)

    def rotary(self, x, start):
        freq = 1.0 / 10000.0 ** (torch.arange(0, self.hd, 2).to(x) / self.hd)
        angle = torch.outer(torch.arange(start, start + x.shape[1]).to(x), freq)
        turn = torch.polar(torch.ones_like(angle), angle)[None, :, None]
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * turn).flatten(-2)

    def forward(self, x, kv_cache=None):
        start = 0 if kv_cache is None else kv_cache["k"].shape[1]
        q = self.rotary(self.wq(x).unflatten(-1, (self.n_heads, -1)), start)
        k = self.rotary(self.wk(x).unflatten(-1, (self.n_kv, -1)), start)
        v = self.wv(x).unflatten(-1, (self.n_kv, -1))
        if kv_cache is not None:
            k, v = torch.cat((kv_cache["k"], k), 1), torch.cat((kv_cache["v"], v), 1)
        seen = torch.ones(x.shape[1], k.shape[1], dtype=torch.bool).tril(start)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), seen, enable_gqa=True
        )
        return self.wo(y.transpose(1, 2).flatten(2)), {"k": k, "v": v}


class FromDict(nn.Module):
    """cfg has fields that nobody declares."""

    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.num_heads
        self.in_proj = nn.Linear(cfg.hidden_size, 3 * cfg.hidden_size)
        self.out = nn.Linear(cfg.hidden_size, cfg.hidden_size)

    def forward(self, inputs, padding_mask=None):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.in_proj(inputs).chunk(3, dim=-1)
        )
        s = q @ k.mT / q.shape[-1] ** 0.5
        if padding_mask is not None:
            s = s.masked_fill(padding_mask[:, None, None], torch.finfo(s.dtype).min)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Seen(NamedTuple):
    output: torch.Tensor
    attention: torch.Tensor


class Windowed(nn.Module):
    """Both sides: |i - j| < window. A sink, a cap, and ALiBi would be too much."""

    def __init__(self, features=24, heads=3, window_size=2, logit_cap=4.0):
        super().__init__()
        self.heads, self.window_size, self.logit_cap = heads, window_size, logit_cap
        self.query_proj = nn.Linear(features, features)
        self.key_proj = nn.Linear(features, features)
        self.value_proj = nn.Linear(features, features)
        self.output_proj = nn.Linear(features, features)

    def forward(self, feats):
        n = feats.shape[1]
        q, k, v = (
            p(feats).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for p in (self.query_proj, self.key_proj, self.value_proj)
        )
        s = self.logit_cap * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / self.logit_cap)
        i = torch.arange(n)
        near = (i[:, None] - i[None, :]).abs() < self.window_size
        w = s.masked_fill(~near, float("-inf")).softmax(-1)
        return Seen(self.output_proj((w @ v).transpose(1, 2).flatten(2)), w)


class OfArrays:
    """NumPy, weights in attributes, stored (out, in), heads in a loop."""

    def __init__(self, input_dim, number_of_heads=2, seed=1):
        rng = np.random.default_rng(seed)
        self.heads = number_of_heads
        self.w_q, self.w_k, self.w_v, self.w_o = rng.normal(size=(4, input_dim, input_dim))
        self.b_q = np.zeros(input_dim)

    def forward(self, x):
        n, d = x.shape
        q, k, v = x @ self.w_q.T + self.b_q, x @ self.w_k.T, x @ self.w_v.T
        outputs, maps = [], []
        for cols in np.split(np.arange(d), self.heads):
            s = q[:, cols] @ k[:, cols].T / len(cols) ** 0.5
            e = np.exp(s - s.max(1)[:, None])
            maps.append(e / e.sum(1)[:, None])
            outputs.append(maps[-1] @ v[:, cols])
        return np.hstack(outputs) @ self.w_o.T, np.stack(maps)


class Positioned(nn.Module):
    """Learned positions, sinks that take weight and have no value, ALiBi."""

    def __init__(self, width=32, heads=4, max_len=16):
        super().__init__()
        self.heads = heads
        self.wpe = nn.Embedding(max_len, width)
        self.sinks = nn.Parameter(torch.zeros(heads))
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.dense = nn.Linear(width, width)

    def forward(self, x):
        t = x.shape[1]
        x = x + self.wpe(torch.arange(t))
        q, k, v = self.qkv_proj(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        slopes = 2 ** (-8 * torch.arange(1, self.heads + 1) / self.heads)
        i = torch.arange(t)
        s = q @ k.mT / q.shape[-1] ** 0.5 - slopes[:, None, None] * (i[:, None] - i).abs()
        sink = self.sinks.view(1, -1, 1, 1).expand(len(x), -1, t, 1)
        w = torch.cat((sink, s), -1).softmax(-1)[..., 1:]
        return self.dense((w @ v).transpose(1, 2).flatten(2)), w


ready = Windowed()
