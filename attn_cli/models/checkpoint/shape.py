"""Shape: the sizes of an attention layer by its configuration, and the tensors they call for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attn_cli.core.geometry import Latent
from attn_cli.errors import InputError
from attn_cli.models.checkpoint.family import Attention, Flag, Stack
from attn_cli.models.checkpoint.fields import Fields
from attn_cli.models.checkpoint.sizes import Size, grouped, twice

Expected = Mapping[str, tuple[Size, ...]]


@dataclass(frozen=True, slots=True)
class Widths:
    """The sizes of one stack's attention, each with the words it comes from."""

    heads: Size
    kv_heads: Size
    d_k: Size
    d_v: Size
    d_model: Size
    latent: Latent | None = None


def widths(stack: Stack, fields: Fields, *, latent: bool) -> Widths:
    """The sizes; d_k is d_model / heads, rounded down, and kv_heads heads, where nothing is said.

    InputError where d_model, heads or a rank of latent attention is missing.
    """
    heads = fields.needed("heads")
    d_model = (stack.d_model and stack.d_model(fields)) or fields.needed("d_model")
    if latent:
        return _latent(fields, heads, d_model)
    kv_heads = (stack.kv_heads or (lambda each: each.size("kv_heads")))(fields) or heads
    d_k = (stack.d_k or (lambda each: each.size("d_k")))(fields) or even(d_model, heads)
    d_v = (stack.d_v and stack.d_v(fields)) or d_k
    return Widths(heads, kv_heads, d_k, d_v, d_model)


def even(whole: Size, parts: Size) -> Size:
    """A width cut into equal parts, rounded down; InputError where there are more parts than it."""
    if parts.value > whole.value:
        raise InputError(
            f"{whole.words} {whole.value} is less than {parts.words} {parts.value}, and no "
            "head_dim is given",
            hint=f"give head_dim, or {whole.value} heads at most",
        )
    cut = "//" if whole.value % parts.value else "/"
    words = f"{whole.words} {cut} {parts.words}"
    return Size(whole.value // parts.value, words, parts.field)


def _latent(fields: Fields, heads: Size, d_model: Size) -> Widths:
    nope, rope = fields.needed("qk_nope_head_dim"), fields.needed("qk_rope_head_dim")
    kv_rank, q_rank = fields.needed("kv_lora_rank"), fields.size("q_lora_rank")
    latent = Latent(
        q_rank=q_rank.value if q_rank else None,
        kv_rank=kv_rank.value,
        d_nope=nope.value,
        d_rope=rope.value,
    )
    d_v = fields.size("v_head_dim") or nope
    return Widths(heads, heads, nope + rope, d_v, d_model, latent)


def expected(attention: Attention, sizes: Widths, fields: Fields) -> dict[str, tuple[Size, ...]]:
    """Every tensor that the module must hold, by its name below the module, with its shape."""
    if attention.latent:
        found = dict(_latent_tensors(attention, sizes, fields))
    else:
        found = dict(_projections(attention, sizes, fields))
    if holds(attention.also_if, fields):
        found |= {name: _read(shape, sizes) for name, shape in attention.also.items()}
    return found


def holds(flag: Flag, fields: Fields) -> bool:
    """What a flag says: itself, or the field that it names; "!x" is the opposite of x."""
    if isinstance(flag, bool):
        return flag
    return not fields.flag(flag[1:]) if flag.startswith("!") else fields.flag(flag)


def has_bias(attention: Attention, letter: str, fields: Fields) -> bool:
    """Whether the projection of a letter of q, k, v, o adds a bias."""
    return any(
        letter in letters and holds(flag, fields) for letters, flag in attention.bias.items()
    )


def bias_field(attention: Attention, letter: str) -> str | None:
    """The field that says so, where one does."""
    flags = [flag for letters, flag in attention.bias.items() if letter in letters]
    return next((flag.lstrip("!") for flag in flags if isinstance(flag, str)), None)


def _projections(
    attention: Attention, sizes: Widths, fields: Fields
) -> Iterator[tuple[str, tuple[Size, ...]]]:
    """The matrices of q, k, v and o, (out, in) or (in, out), and their biases."""
    queries, keys = sizes.heads * sizes.d_k, sizes.kv_heads * sizes.d_k
    values = sizes.kv_heads * sizes.d_v
    outs = {"q": twice(queries) if attention.gated else queries, "k": keys, "v": values}
    if attention.qkv is not None:
        yield from _matrix(attention, "q", attention.qkv, _fused(sizes), sizes.d_model, fields)
    else:
        for letter, out in outs.items():
            name = getattr(attention, letter)
            yield from _matrix(attention, letter, name, out, sizes.d_model, fields)
    if attention.o is not None:
        merged = sizes.heads * sizes.d_v
        yield from _matrix(attention, "o", attention.o, sizes.d_model, merged, fields)


def _fused(sizes: Widths) -> Size:
    if sizes.kv_heads == sizes.heads:
        whole = sizes.heads * sizes.d_k
        return Size(3 * whole.value, f"3 · {grouped(whole.words)}", whole.field)
    total = sizes.heads + twice(sizes.kv_heads)
    value = total.value * sizes.d_k.value
    return Size(value, f"({total.words}) · {grouped(sizes.d_k.words)}", sizes.kv_heads.field)


def _matrix(
    attention: Attention, letter: str, name: str, out: Size, into: Size, fields: Fields
) -> Iterator[tuple[str, tuple[Size, ...]]]:
    yield f"{name}.weight", (into, out) if attention.conv1d else (out, into)
    if has_bias(attention, letter, fields):
        yield attention.bias_name.get(letter, f"{name}.bias"), (out,)


def _latent_tensors(
    attention: Attention, sizes: Widths, fields: Fields
) -> Iterator[tuple[str, tuple[Size, ...]]]:
    """Multi-head latent attention (DeepSeek-V2, section 2.1), by DeepSeek's names."""
    assert sizes.latent is not None
    kv_rank, rope = fields.needed("kv_lora_rank"), fields.needed("qk_rope_head_dim")
    nope, q_rank = fields.needed("qk_nope_head_dim"), fields.size("q_lora_rank")
    queries = sizes.heads * sizes.d_k
    biased = has_bias(attention, "k", fields)
    if q_rank is None:
        yield "q_proj.weight", (queries, sizes.d_model)
    else:
        yield "q_a_proj.weight", (q_rank, sizes.d_model)
        yield "q_a_layernorm.weight", (q_rank,)
        yield "q_b_proj.weight", (queries, q_rank)
    yield "kv_a_proj_with_mqa.weight", (kv_rank + rope, sizes.d_model)
    yield "kv_a_layernorm.weight", (kv_rank,)
    yield "kv_b_proj.weight", (sizes.heads * (nope + sizes.d_v), kv_rank)
    yield "o_proj.weight", (sizes.d_model, sizes.heads * sizes.d_v)
    if biased:
        if q_rank is not None:
            yield "q_a_proj.bias", (q_rank,)
        yield "kv_a_proj_with_mqa.bias", (kv_rank + rope,)
        yield "o_proj.bias", (sizes.d_model,)


def _read(shape: str, sizes: Widths) -> tuple[Size, ...]:
    """A shape in attn's words: "heads d_k" has two axes, "heads*d_k" one."""
    axes = []
    for axis in shape.split():
        size, *rest = (_word(word, sizes) for word in re.split(r"\*", axis))
        for factor in rest:
            size = size * factor
        axes.append(size)
    return tuple(axes)


def _word(word: str, sizes: Widths) -> Size:
    return Size(int(word), word, "") if word.isdigit() else getattr(sizes, word)
