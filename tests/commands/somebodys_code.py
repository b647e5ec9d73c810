"""Code as somebody writes it, which the tests of commands check."""

from __future__ import annotations

CODE = '''"""Attention over (length, d)."""
import numpy as np

def right(q, k, v, mask=None):
    """mask: True = may attend."""
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v

def over_queries(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    scores = np.exp(scores - scores.max(0, keepdims=True))
    return scores / scores.sum(0, keepdims=True) @ v

def overflows(q, k, v):
    weights = np.exp(q @ k.T / np.sqrt(q.shape[-1]))
    return weights / weights.sum(-1, keepdims=True) @ v

def by_distance(q, k, v):
    scores = -np.abs(q[:, None] - k[None]).sum(-1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v

def unclear(q, k, v, m=None):
    return q

def raises(q, k, v):
    return q @ k.T @ values

class Wrapped:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, q, k, v):
        return right(q * self.factor, k, v)
'''
TORCH = '''"""Attention of tensors."""
import math
import torch

def right(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v, None

def detached(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1).detach() @ v
'''
