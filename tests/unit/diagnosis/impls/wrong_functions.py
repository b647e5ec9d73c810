"""Attention as functions, each with one mistake; `right` and its like have none."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def right(q, k, v, mask=None):
    """Any rank; mask: bool, True = may attend."""
    s = torch.einsum("...ld,...sd->...ls", q * (1 / math.sqrt(q.shape[-1])), k)
    if mask is not None:
        s = torch.where(mask, s, torch.tensor(-torch.inf, dtype=s.dtype))
    e = (s - s.amax(-1, keepdim=True)).exp()
    return torch.einsum("...ls,...sd->...ld", e / e.sum(-1, keepdim=True), v)


def right_filled(q, k, v, mask=None):
    s = q.matmul(k.transpose(-1, -2)).div(q.shape[-1] ** 0.5)
    if mask is not None:
        s = s.masked_fill(mask.logical_not(), torch.finfo(s.dtype).min)
    return s.softmax(-1).matmul(v)


def right_sdpa(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def right_late(q, k, v, mask=None):
    """exp, masked, normalised: with the maximum of what is visible subtracted."""
    s = q @ k.mT / math.sqrt(k.shape[-1])
    keep = torch.ones_like(s) if mask is None else mask.to(s.dtype).expand(s.shape)
    top = torch.where(keep > 0, s, torch.full_like(s, -1e30)).amax(-1, keepdim=True)
    e = torch.exp((s - top).clamp(max=0)) * keep
    return (e / e.sum(-1, keepdim=True)) @ v


def scale_missing(q, k, v, mask=None):
    s = (q[..., :, None, :] * k[..., None, :, :]).sum(-1)
    if mask is not None:
        s = s - 1e30 * (~mask)
    return s.softmax(-1) @ v


def scale_by_dk(q, k, v, mask=None):
    s = (q / q.shape[-1]) @ k.mT
    if mask is not None:
        s[(~mask).expand_as(s)] = -torch.inf
    return s.softmax(-1) @ v


def scale_applied_twice(q, k, v, mask=None):
    q = q * q.shape[-1] ** -0.5
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def scale_inverted(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=q.shape[-1] ** 0.5)


def scale_by_key_count(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=k.shape[-2] ** -0.5)


def scale_by_num_heads(q, k, v, mask=None):
    """(B, H, L, d)"""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=q.size(1) ** -0.5)


def scale_after_softmax(q, k, v, mask=None):
    s = q @ k.mT
    if mask is not None:
        s = s.masked_fill(~mask, -1e9)
    return (s.softmax(-1) * q.shape[-1] ** -0.5) @ v


def softmax_over_queries(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -1e9)
    e = torch.exp(s - s.max())
    return e / e.sum(-2, keepdim=True) @ v


def softmax_over_everything(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    e = torch.exp(s - s.max())
    return (e / e.sum()) @ v


def softmax_over_batch(q, k, v):
    """(B, L, d): the axis that softmax took when none was said."""
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(0) @ v


def softmax_over_heads(q, k, v):
    """(B, H, L, d)"""
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(1) @ v


def softmax_plus_one(q, k, v, mask=None):
    s = q @ k.mT * q.shape[-1] ** -0.5
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return e @ v / (e.sum(-1, keepdim=True) + 1)


def softmax_missing(q, k, v):
    s = q @ k.mT * q.shape[-1] ** -0.5
    return s @ v


def log_softmax_weights(q, k, v):
    return torch.log_softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def softmax_overflow(q, k, v, mask=None):
    e = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]))
    if mask is not None:
        e = e.masked_fill(~mask, 0.0)
    return e @ v / e.sum(-1, keepdim=True)


def softmax_wrong_normaliser(q, k, v):
    s = np.einsum("ld,sd->ls", q, k) / math.sqrt(q.shape[-1])
    e = np.exp(s - np.amax(s, 1)[:, None])
    return np.einsum("ls,sd->ld", e / np.sum(e, 1), v)


def mask_no_effect(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        torch.where(mask, s, torch.full_like(s, -torch.inf))
    return s.softmax(-1) @ v


def mask_polarity_inverted(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(mask, -1e9)
    return s.softmax(-1) @ v


def mask_after_softmax(q, k, v, mask=None):
    w = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    if mask is not None:
        w = w.masked_fill(~mask, 0)
    return w @ v


def late_mask_underflow(q, k, v, mask=None):
    w = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    if mask is not None:
        w = torch.where(mask, w, torch.zeros_like(w))
        w = w / w.sum(-1, keepdim=True)
    return w @ v


def mask_multiplied(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = torch.mul(s, mask)
    return s.softmax(-1) @ v


def mask_fill_too_small(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -3.5)
    return s.softmax(-1) @ v


def mask_fill_small_added(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s + (~mask).to(s.dtype) * -12.0
    return s.softmax(-1) @ v


def mask_fill_positive(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s + (~mask).to(s.dtype) * 1e9
    return s.softmax(-1) @ v


def mask_added_as_is(q, k, v, mask=None):
    """SDPA adds a mask that is no bool one."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(q.dtype))


def mask_zero_times_inf(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s + mask.logical_not().to(s.dtype) * float("-inf")
    return s.softmax(-1) @ v


def keys_used_as_values(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)


def weights_transposed(q, k, v):
    w = (k @ q.mT / math.sqrt(q.shape[-1])).softmax(-2)
    return w @ v


def einsum_index_not_shared(q, k, v):
    w = torch.einsum("...qd,...kd->...qk", q, k).div(math.sqrt(q.shape[-1])).softmax(-1)
    return torch.einsum("...qk,...sd->...qd", w, v)


def query_key_swapped(q, k, v):
    return (k @ q.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def key_reshaped_not_transposed(q, k, v):
    s = q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    return (s / math.sqrt(q.shape[-1])).softmax(-1) @ v


def key_transposed_all_axes(q, k, v):
    s = np.matmul(q, k.T) / math.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.matmul(e / e.sum(-1, keepdims=True), v)


def loop_skips_last_key(q, k, v):
    keys = range(k.shape[-2] - 1)
    s = torch.stack([(q * k[..., j : j + 1, :]).sum(-1) for j in keys], -1)
    w = (s / math.sqrt(q.shape[-1])).softmax(-1)
    return sum(w[..., j : j + 1] * v[..., j : j + 1, :] for j in keys)


def half_precision_scores(q, k, v, mask=None):
    s = torch.matmul(q.bfloat16(), k.bfloat16().mT).to(q.dtype) / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    return s.softmax(-1) @ v


def mutates_inputs(q, k, v, mask=None):
    k /= math.sqrt(q.shape[-1])
    s = q @ k.mT
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    return s.softmax(-1) @ v


def crash_on_bool_mask(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s - (1.0 - mask) * 1e9
    return s.softmax(-1) @ v


def crash_on_length_mismatch(q, k, v):
    """(B, L, d)"""
    B, L, d = q.shape
    s = torch.bmm(q.view(B, L, d), k.view(B, L, d).transpose(1, 2)) / math.sqrt(d)
    return torch.bmm(s.softmax(-1), v.view(B, L, -1))


def attends_over_features(q, k, v):
    w = (q.mT @ k / math.sqrt(q.shape[-1])).softmax(-1)
    return v @ w


def attends_over_heads(q, k, v):
    """(B, H, L, d), taken for (B, L, H, d)"""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def attends_over_batch(q, k, v):
    """(B, L, d), taken for (L, B, d)"""
    q, k, v = (t.transpose(0, 1) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(0, 1)


def wrong_on_large_scores(q, k, v):
    s = (q @ k.mT / math.sqrt(q.shape[-1])).clamp(-60, 60)
    return s.softmax(-1) @ v


def bias_right(q, k, v, bias=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def bias_scaled_too(q, k, v, bias=None):
    s = q @ k.mT
    return ((s if bias is None else s + bias) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def numpy_right(q, k, v):
    s = q @ k.T / math.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def numpy_batched(q, k, v):
    s = np.einsum("bld,bsd->bls", q, k) / math.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bls,bsd->bld", e / e.sum(-1, keepdims=True), v)


def integer_truncation(q, k, v):
    s = q @ k.T / math.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    mixed = np.empty_like(v, shape=(len(q), v.shape[1]))
    mixed[:] = e / e.sum(-1, keepdims=True) @ v
    return mixed


def with_weights_right(q, k, v):
    w = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return w @ v, w


def returns_scores_as_weights(q, k, v):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return s.softmax(-1) @ v, s


_before = {}


def stateful_between_calls(q, k, v, mask=None):
    """Keeps the mask of the first call."""
    if mask is not None:
        mask = _before.setdefault("mask", mask)
        if mask.shape[-2:] != (q.shape[-2], k.shape[-2]):
            _before.clear()
            mask = None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def dropout_in_eval(q, k, v):
    """F.dropout is active unless it is told otherwise."""
    return F.dropout((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1), 0.2) @ v
