"""Attention as modules, each with one mistake in one method; the first class of a kind has none."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """x (B, T, C) → (B, T, C); mask (B, T), True = padding. Every step is a method of its own."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.width, self.heads, self.size = width, heads, width // heads
        self.key = nn.Linear(width, width)
        self.query = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.final = nn.Linear(width, width)

    def parts(self, x):
        return self.query(x), self.key(x), self.value(x)

    def cut(self, t):
        return torch.stack(t.split(self.size, dim=-1), dim=1)

    def glue(self, t):
        return torch.cat(t.unbind(1), dim=-1)

    def compare(self, q, k):
        return q @ k.mT

    def factor(self):
        return self.size**-0.5

    def cover(self, s, pad):
        return s if pad is None else s.masked_fill(pad[:, None, None], -torch.inf)

    def finish(self, t):
        return self.final(t)

    def forward(self, x, pad=None):
        q, k, v = (self.cut(t) for t in self.parts(x))
        s = self.cover(self.compare(q, k) * self.factor(), pad)
        return self.finish(self.glue(s.softmax(-1) @ v))


class ScaleByDModel(Layer):
    def factor(self):
        return 1 / math.sqrt(self.final.in_features)


class ScaleByNumHeads(Layer):
    def factor(self):
        return 1 / math.sqrt(self.heads)


class KeyUsesQuery(Layer):
    def parts(self, x):
        return self.query(x), self.query(x), self.value(x)


class ValueUsesKey(Layer):
    def parts(self, x):
        return self.query(x), self.key(x), self.key(x)


class SplitByView(Layer):
    def cut(self, t):
        return t.reshape(len(t), self.heads, t.shape[1], self.size)


class SplitInterleaved(Layer):
    def cut(self, t):
        return t.unflatten(-1, (self.size, self.heads)).permute(0, 3, 1, 2)


class MergedAsItLies(Layer):
    def glue(self, t):
        return t.flatten(1).view(len(t), -1, self.width)


class MergedInterleaved(Layer):
    def glue(self, t):
        return t.permute(0, 2, 3, 1).flatten(2)


class NoFinal(Layer):
    def finish(self, t):
        return t


class FinalTransposed(Layer):
    def finish(self, t):
        return t @ self.final.weight + self.final.bias


class AlongHeads(Layer):
    def cut(self, t):
        return t.unflatten(-1, (self.heads, self.size))

    def glue(self, t):
        return t.flatten(2)

    def cover(self, s, pad):
        return s


class PadOnQueries(Layer):
    def cover(self, s, pad):
        return s if pad is None else s.masked_fill(pad[:, None, :, None], -1e9)


class PadInverted(Layer):
    def cover(self, s, pad):
        return s if pad is None else s.masked_fill(~pad[:, None, None], -1e9)


class PadAsItBroadcasts(Layer):
    def cover(self, s, pad):
        return s if pad is None else s.masked_fill(pad, -1e9)


class PadForHeads(Layer):
    def cover(self, s, pad):
        return s if pad is None else s.masked_fill(pad[:, None], -1e9)


class PadRepeated(Layer):
    def cover(self, s, pad):
        if pad is None:
            return s
        folded = s.flatten(0, 1)
        return folded.masked_fill(pad.repeat(self.heads, 1)[:, None], -1e9).view_as(s)


class PadAdded(Layer):
    def cover(self, s, pad):
        return s if pad is None else s + (~pad).to(s.dtype)[:, None, None]


class Remembers(Layer):
    kept = None

    def parts(self, x):
        q, k, v = super().parts(x)
        if self.kept is not None and self.kept.shape == v.shape:
            v = (v + self.kept) / 2
        self.kept = v.detach()
        return q, k, v


class Dropped(Layer):
    """Right: dropout behind softmax, in train mode."""

    def forward(self, x, pad=None):
        q, k, v = (self.cut(t) for t in self.parts(x))
        s = self.cover(self.compare(q, k) * self.factor(), pad)
        return self.finish(self.glue(F.dropout(s.softmax(-1), 0.3, self.training) @ v))


class DroppedAlways(Dropped):
    def forward(self, x, pad=None):
        q, k, v = (self.cut(t) for t in self.parts(x))
        keep = None if pad is None else ~pad[:, None, None]
        return self.finish(self.glue(F.scaled_dot_product_attention(q, k, v, keep, dropout_p=0.1)))


class DroppedScores(Dropped):
    def cover(self, s, pad):
        return super().cover(F.dropout(s, 0.3, self.training), pad)

    forward = Layer.forward


class Packed(nn.Module):
    """One matrix for q, k and v, causal."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def unpack(self, packed):
        q, k, v = packed.tensor_split(3, dim=-1)
        return [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v)]

    def seen(self, L):
        return torch.ones(L, L, dtype=torch.bool).tril()

    def forward(self, x, mask=None):
        """mask (B, T), 1 = token."""
        q, k, v = self.unpack(self.qkv(x))
        seen = self.seen(x.shape[1])
        if mask is not None:
            seen = self.joined(seen, mask.bool()[:, None, None, :])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(y.transpose(1, 2).flatten(2))

    def joined(self, seen, mask):
        return seen & mask


class PackedOrder(Packed):
    def unpack(self, packed):
        q, k, v = super().unpack(packed)
        return v, q, k


class PackedPerHead(Packed):
    def unpack(self, packed):
        return packed.unflatten(-1, (self.heads, 3, -1)).permute(3, 0, 2, 1, 4)


class MaskInsteadOfCausal(Packed):
    def joined(self, seen, mask):
        return mask


class Cross(nn.Module):
    """Queries from x, keys and values from memory."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in "qkvo")

    def roles(self, x, memory):
        return x, memory, memory

    def forward(self, x, memory):
        parts = zip((self.q, self.k, self.v), self.roles(x, memory), strict=True)
        q, k, v = (f(t).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, t in parts)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.o(y.transpose(1, 2).flatten(2))


class CrossIgnores(Cross):
    def roles(self, x, memory):
        return x, x, x


class CrossSwapped(Cross):
    def roles(self, x, memory):
        return memory, x, x


class Library(nn.Module):
    """nn.MultiheadAttention as it is meant."""

    first = True

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=self.first)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]


class LibraryTokensFirst(Library):
    first = False
