"""Attention as PyTorch modules in many styles; all right."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Separate(nn.Module):
    """The transformer's paper. mask: 1 = attend."""

    def __init__(self, d_model, h, dropout=0.1):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.attn = None

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)  # the same for all heads
        n = query.size(0)
        query, key, value = [
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip((self.W_q, self.W_k, self.W_v), (query, key, value))
        ]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        self.attn = self.dropout(scores.softmax(dim=-1))
        x = torch.matmul(self.attn, value).transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k)
        return self.W_o(x)


class SingleHead(nn.Module):
    def __init__(self, embedding_dim, head_size):
        super().__init__()
        self.key = nn.Linear(embedding_dim, head_size, bias=False)
        self.query = nn.Linear(embedding_dim, head_size, bias=False)
        self.value = nn.Linear(embedding_dim, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(64, 64)))

    def forward(self, x):
        B, T, C = x.shape
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class ListOfHeads(nn.Module):
    def __init__(self, num_heads=4, n_embd=32):
        super().__init__()
        self.heads = nn.ModuleList([SingleHead(n_embd, n_embd // num_heads) for _ in range(num_heads)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


class CrossKV(nn.Module):
    """to_q and to_kv; the context may have another width."""

    def __init__(self, dim, context_dim=None, heads=4, dim_head=8):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim or dim, inner * 2, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, dim), nn.Dropout(0.0))

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = self.to_q(x), *self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        attn = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
        return self.to_out((attn @ v).transpose(1, 2).flatten(2))


class FusedBiased(nn.Module):
    """timm's way, with an attention map if wanted."""

    def __init__(self, dim, num_heads=8, qkv_bias=True):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, return_attention=False):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)
        x = self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))
        return (x, attn) if return_attention else x


class Wrapped(nn.Module):
    """nn.MultiheadAttention inside, sequence first."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(embed_dim, num_heads)

    def forward(self, src, src_key_padding_mask=None):
        """src: (tokens, batch, dim)"""
        return self.self_attn(src, src, src, key_padding_mask=src_key_padding_mask)


class InProj(nn.Module):
    """One parameter for q, k and v, (3 * d, d)."""

    def __init__(self, embed_dim=24, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, attn_mask=None):
        """attn_mask (tokens, tokens): bool, True = not allowed, like nn.MultiheadAttention."""
        ws, bs = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), ws, bs))
        q, k, v = (t.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for t in (q, k, v))
        m = None if attn_mask is None else ~attn_mask
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, m).transpose(1, 2).flatten(2))


class HeadTensors(nn.Module):
    """TransformerLens' way: one tensor a role, (heads, d_model, d_head)."""

    def __init__(self, n_heads, d_model, d_head):
        super().__init__()
        new = lambda *shape: nn.Parameter(torch.randn(*shape))  # noqa: E731
        self.W_Q, self.W_K, self.W_V = (new(n_heads, d_model, d_head) for _ in range(3))
        self.b_Q, self.b_K, self.b_V = (new(n_heads, d_head) for _ in range(3))
        self.W_O, self.b_O = new(n_heads, d_head, d_model), new(d_model)

    def forward(self, resid_pre):
        x = resid_pre
        q, k, v = (
            torch.einsum("bpd,hde->bphe", x, w) + b
            for w, b in ((self.W_Q, self.b_Q), (self.W_K, self.b_K), (self.W_V, self.b_V))
        )
        s = torch.einsum("bqhe,bkhe->bhqk", q, k) / q.shape[-1] ** 0.5
        p = s.softmax(-1)
        z = torch.einsum("bhqk,bkhe->bqhe", p, v)
        return torch.einsum("bqhe,hed->bqd", z, self.W_O) + self.b_O


class OfImages(nn.Module):
    """x: (B, C, H, W); a 1x1 convolution makes q, k and v."""

    def __init__(self, channels):
        super().__init__()
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q = self.q(x).reshape(b, c, h * w).permute(0, 2, 1)
        k, v = self.k(x).reshape(b, c, h * w), self.v(x).reshape(b, c, h * w)
        weights = torch.softmax(torch.bmm(q, k) * c**-0.5, dim=2)
        return self.proj_out(torch.bmm(v, weights.permute(0, 2, 1)).reshape(b, c, h, w))


class Grouped(nn.Module):
    """Grouped queries, rotary positions on halves, causal, an additive mask from outside."""

    def __init__(self, hidden_size=48, num_attention_heads=6, num_key_value_heads=3):
        super().__init__()
        self.nq, self.nkv = num_attention_heads, num_key_value_heads
        self.head_dim = hidden_size // num_attention_heads
        self.q_proj = nn.Linear(hidden_size, self.nq * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, self.nkv * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, self.nkv * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.nq * self.head_dim, hidden_size, bias=False)

    @staticmethod
    def rotate_half(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    def forward(self, hidden_states, position_ids=None):
        b, n, _ = hidden_states.shape
        if position_ids is None:
            position_ids = torch.arange(n).expand(b, n)
        inv = 10000 ** -(torch.arange(0, self.head_dim, 2).to(hidden_states) / self.head_dim)
        angle = position_ids[:, None, :, None] * torch.cat((inv, inv))
        q = self.q_proj(hidden_states).view(b, n, self.nq, -1).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, n, self.nkv, -1).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, n, self.nkv, -1).transpose(1, 2)
        q, k = (t * angle.cos() + self.rotate_half(t) * angle.sin() for t in (q, k))
        k, v = (t.repeat_interleave(self.nq // self.nkv, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        return self.o_proj(y.transpose(1, 2).reshape(b, n, -1)), None


class Nameless(nn.Module):
    """Names that tell nothing."""

    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.first, self.second, self.third, self.last = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for f in (self.first, self.second, self.third)
        )
        return self.last(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
