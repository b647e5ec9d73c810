"""Code for the verdicts: two mistakes at once, conventions, and what has no name."""

import math

import torch
import torch.nn.functional as F

from tests.unit.diagnosis.impls.wrong_modules import Layer


def no_scale_and_mask_late(q, k, v, mask=None):
    w = (q @ k.mT).softmax(-1)
    return (w if mask is None else w * mask) @ v


def leaks_and_doubly_scaled(q, k, v):
    s = q @ k.mT / q.shape[-1]
    hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(2)
    return s.masked_fill(hidden, -math.inf).softmax(-1) @ v


class TwoMistakes(Layer):
    def glue(self, t):
        return t.flatten(1).view(len(t), -1, self.width)

    def cover(self, s, pad):
        return s


def upper_left(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def upper_left_scaled_twice(q, k, v):
    return F.scaled_dot_product_attention(q / q.shape[-1] ** 0.5, k, v, is_causal=True)


class T5Like:
    def __call__(self, q, k, v):
        return (q @ k.mT).softmax(-1) @ v


def of_its_own_kind(q, k, v, mask=None):
    """Distances instead of products."""
    s = -torch.cdist(q, k)
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    return s.softmax(-1) @ v


def with_epsilon(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -1e9)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return e / (e.sum(-1, keepdim=True) + 1e-6) @ v


def uniform_when_empty(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return (s if mask is None else s.masked_fill(~mask, -1e9)).softmax(-1) @ v


def nan_when_empty(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return (s if mask is None else s.masked_fill(~mask, -math.inf)).softmax(-1) @ v


class Grows(Layer):
    """Keeps the keys of every call: the second one no longer fits its mask."""

    def __init__(self, width=24, heads=3):
        super().__init__(width, heads)
        self.seen = []

    def parts(self, x):
        q, k, v = super().parts(x)
        self.seen.append((k, v))
        k, v = (torch.cat(parts, 1) for parts in zip(*self.seen, strict=True))
        return q, k, v

    def cover(self, s, pad):
        L = s.shape[-2]
        s = s + torch.zeros(L, L)
        return super().cover(s, pad)
