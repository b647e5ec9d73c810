"""Layers with positions, each with one mistake in one method; the first of a kind has none."""

import torch
import torch.nn.functional as F
from torch import nn


class Rotary(nn.Module):
    """Halves are turned, with a cache, grouped heads of a width of their own, causal."""

    def __init__(self, width=20, heads=4, kv_heads=2, head_dim=6):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.q = nn.Linear(width, heads * head_dim, bias=False)
        self.k = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.v = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.o = nn.Linear(heads * head_dim, width, bias=False)

    def angles(self, places):
        inverse = 10000.0 ** -(torch.arange(self.head_dim // 2) * 2 / self.head_dim)
        return torch.outer(places.to(inverse.dtype), inverse)

    def doubled(self, a):
        return torch.cat([a, a], -1)

    def other(self, t):
        first, second = t.chunk(2, -1)
        return torch.cat([-second, first], -1)

    def turn(self, t, start):
        a = self.doubled(self.angles(torch.arange(t.shape[-2]) + start))
        return t * a.cos() + self.other(t) * a.sin()

    def turned(self, q, k, start):
        return self.turn(q, start), self.turn(k, start)

    def spread(self, t):
        return t.repeat_interleave(self.heads // self.kv_heads, 1)

    def scale(self):
        return self.head_dim**-0.5

    def seen(self, new, all_):
        return torch.ones(new, all_, dtype=torch.bool).tril(all_ - new)

    def forward(self, x, cache=None):
        q, k, v = (
            f(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        start = 0 if cache is None else cache[0].shape[-2]
        q, k = self.turned(q, k, start)
        if cache is not None:
            k, v = torch.cat([cache[0], k], -2), torch.cat([cache[1], v], -2)
        s = q @ self.spread(k).mT * self.scale()
        s = s.masked_fill(~self.seen(x.shape[1], k.shape[-2]), -torch.inf)
        return self.o((s.softmax(-1) @ self.spread(v)).transpose(1, 2).flatten(2)), (k, v)


class RotaryQueryOnly(Rotary):
    def turned(self, q, k, start):
        return self.turn(q, start), k


class RotaryMissing(Rotary):
    def turned(self, q, k, start):
        return q, k


class RotaryMixed(Rotary):
    def doubled(self, a):
        return a.repeat_interleave(2, -1)


class RotaryNeighbours(Rotary):
    def doubled(self, a):
        return a.repeat_interleave(2, -1)

    def other(self, t):
        return torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2)


class RotaryRestarts(Rotary):
    def turned(self, q, k, start):
        return super().turned(q, k, 0)


class Tiled(Rotary):
    def spread(self, t):
        return t.repeat(1, self.heads // self.kv_heads, 1, 1)


class RepeatedElements(Rotary):
    def spread(self, t):
        wide = t.transpose(1, 2).flatten(2).repeat_interleave(self.heads // self.kv_heads, -1)
        return wide.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class WrongHeadDim(Rotary):
    def scale(self):
        return (self.o.out_features // self.heads) ** -0.5


class TopLeft(Rotary):
    def seen(self, new, all_):
        return torch.ones(new, all_, dtype=torch.bool).tril()


class Linear(nn.Module):
    """A bias that falls with the distance, causal."""

    sign = -1

    def __init__(self, width=24, heads=4):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in "qkv")
        self.to_out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f in (self.to_q, self.to_k, self.to_v)
        )
        i = torch.arange(x.shape[1])
        distance = (i[:, None] - i[None]).to(x.dtype)
        slopes = 2.0 ** (-8 * (torch.arange(self.heads) + 1) / self.heads)
        bias = self.sign * slopes[:, None, None] * distance
        bias = bias.masked_fill(distance < 0, -torch.inf)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.to_out(y.transpose(1, 2).flatten(2))


class LinearSign(Linear):
    sign = 1


class Table(nn.Module):
    """Positions from a table, padding on the left, causal."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.wpe = nn.Embedding(50, width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in "qkvo")

    def places(self, x, mask):
        if mask is None:
            return torch.arange(x.shape[1])
        return (mask.cumsum(1) - 1).clamp(min=0)

    def forward(self, x, mask=None):
        x = x + self.wpe(self.places(x, mask))
        L = x.shape[1]
        seen = torch.ones(L, L, dtype=torch.bool).tril()
        if mask is not None:
            seen = seen & mask[:, None, None].bool()
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.o(y.transpose(1, 2).flatten(2))


class TablePadded(Table):
    def places(self, x, mask):
        return torch.arange(x.shape[1])
