"""Causal attention in PyTorch as one writes it the first time: it runs, it trains, it is wrong."""

import math

import torch
from torch import Tensor, nn


class MyAttention(nn.Module):
    """Causal multi-head self-attention over x, (batch, length, d_model)."""

    def __init__(self, d_model: int = 32, n_heads: int = 4) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        length, d_model = x.shape[1:]
        q = self.heads(self.w_q(x))
        k = self.heads(self.w_k(x))
        v = self.heads(self.w_v(x))
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(d_model)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
        weights = scores.softmax(dim=-1)
        context = (weights @ v).transpose(1, 2).reshape(x.shape)
        output: Tensor = self.w_o(context)
        return output
