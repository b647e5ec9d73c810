"""Names: what an array's name means, in attn's words and in those of other projects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from attn_cli.errors import InputError

Words = Mapping[str, tuple[str, ...]]

CORE_WORDS: Words = {
    "x": (
        "x",
        "vectors",
        "token_vectors",
        "embeddings",
        "embedding",
        "token_embeddings",
        "input_embeddings",
        "inputs_embeds",
        "hidden_states",
        "hidden_state",
        "last_hidden_state",
        "input",
        "inputs",
    ),
    "q": ("q", "query", "queries", "query_states", "query_layer", "q_states", "hook_q"),
    "k": ("k", "key", "keys", "key_states", "key_layer", "k_states", "hook_k"),
    "v": ("v", "value", "values", "value_states", "value_layer", "v_states", "hook_v"),
}

# What a computation may start from. A mask's name tells its convention: mask (True or 1 = may
# attend unless told), attention_mask (1 = may attend, as in transformers), key_padding_mask
# (True = hidden, as in torch.nn.MultiheadAttention), additive_mask (added to the scores);
# padding_mask is used both ways.
INPUT_WORDS: Words = {
    **CORE_WORDS,
    "context": ("context", "encoder_hidden_states", "memory"),
    "lengths": ("lengths", "seq_lens", "sequence_lengths", "valid_lens"),
    "context_lengths": ("context_lengths", "key_lengths", "memory_lengths", "encoder_lengths"),
    "mask": ("mask", "attn_mask", "causal_mask"),
    "attention_mask": ("attention_mask", "encoder_attention_mask"),
    "key_padding_mask": ("key_padding_mask", "src_key_padding_mask", "memory_key_padding_mask"),
    "padding_mask": ("padding_mask",),
    "additive_mask": ("additive_mask",),
    "bias": (
        "bias",
        "attn_bias",
        "attention_bias",
        "position_bias",
        "relative_position_bias",
        "score_bias",
    ),
    "sinks": ("sinks", "sink_logits", "attention_sinks", "s_aux"),
}

# What a computation leaves: the stages, in the order of the formula. qk_similarities is
# x-transformers' word, attn_weights transformers', softmax_lse flash-attention's; hook_attn_scores
# (after the mask), pattern and z are TransformerLens's.
STAGE_WORDS: Words = {
    **CORE_WORDS,
    "x_positions": ("x_positions", "x_with_positions", "positioned"),
    "q_rotated": ("q_rotated", "q_rot", "q_rope", "q_embed", "hook_rot_q"),
    "k_rotated": ("k_rotated", "k_rot", "k_rope", "k_embed", "hook_rot_k"),
    "scores": ("scores", "qk", "qk_similarities", "raw_scores", "attn_scores", "attention_scores"),
    "scaled": ("scaled", "scaled_scores"),
    "softcapped": ("softcapped", "softcapped_scores", "capped", "capped_scores"),
    "biased": ("biased", "biased_scores"),
    "masked": ("masked", "masked_scores", "hook_attn_scores"),
    "weights": (
        "weights",
        "attn_weights",
        "attention_weights",
        "probs",
        "attn_probs",
        "attention_probs",
        "attentions",
        "pattern",
        "attn_pattern",
        "hook_pattern",
    ),
    "context": ("context", "context_layer", "z", "hook_z", "attn_output", "attention_output"),
    "merged": ("merged", "merged_heads", "concat", "concat_heads"),
    "output": ("output", "out", "y"),
    "lse": ("lse", "softmax_lse", "logsumexp"),
}

TEXT_WORDS: Words = {
    "tokens": ("tokens", "token", "query_tokens"),
    "context_tokens": ("context_tokens", "key_tokens", "memory_tokens", "encoder_tokens"),
}

_PARAMETER = re.compile(
    r"(^|[._/])(weight|.+[./]bias)$"  # any module's parameters: q_proj.weight, attn.c_attn.bias
    r"|(^|[._/])w_?(q|k|v|o|qkv|kv)$"  # the letters of the papers: W_q, wo, Wqkv
    r"|(^|[._/])(in|out|q|k|v|o|qkv|kv)_?proj_(weight|bias)$",
    re.IGNORECASE,
)


def recognise(names: Iterable[str], words: Words = STAGE_WORDS) -> dict[str, str]:
    """attn's word → the name that means it, for each of `names` that is in the table.

    Case, underscores, hyphens, dots and blanks do not matter. A prefix (`layer0.q`) is dropped
    where no whole name is x, q, k or v and every name that this makes known has the same prefix.
    Raises InputError where two names mean the same, or where the prefixes differ.

    >>> recognise(["query_states", "Key", "attn_weights", "loss"])
    {'q': 'query_states', 'k': 'Key', 'weights': 'attn_weights'}
    >>> recognise(["layer0.q", "layer0.k"])
    {'q': 'layer0.q', 'k': 'layer0.k'}
    """
    every = list(names)
    index = _index(words)
    known = [(index[_plain(name)], name) for name in every if _plain(name) in index]
    if not any(ours in CORE_WORDS for ours, _ in known):
        known += _known_by_last_part(every, index)
    found: dict[str, str] = {}
    for ours, name in known:
        if ours in found:
            raise InputError(
                f"{found[ours]!r} and {name!r} both mean {ours}",
                hint="give one of them, or rename the other",
            )
        found[ours] = name
    return found


def meaning(name: str, words: Words = STAGE_WORDS) -> str | None:
    """attn's word for one name, by the whole of it or by its last part; None where there is none.

    >>> meaning("blocks.0.attn.hook_pattern"), meaning("loss")
    ('weights', None)
    """
    index = _index(words)
    return index.get(_plain(name)) or index.get(_plain(_last_part(name)))


def looks_like_parameter(name: str) -> bool:
    """Whether the name is that of a model's weight or bias rather than of something computed.

    >>> [looks_like_parameter(n) for n in ("self_attn.q_proj.weight", "W_Q", "attn_weights", "q")]
    [True, True, False, False]
    """
    return _PARAMETER.search(name) is not None


def _known_by_last_part(names: list[str], index: Mapping[str, str]) -> list[tuple[str, str]]:
    known: list[tuple[str, str]] = []
    prefixes: list[str] = []
    for name in names:
        last = _last_part(name)
        if last != name and _plain(last) in index and _plain(name) not in index:
            known.append((index[_plain(last)], name))
            prefixes.append(name[: -len(last)])
    if not any(ours in CORE_WORDS for ours, _ in known):
        return []
    if len(set(prefixes)) > 1:
        shown = ", ".join(repr(prefix) for prefix in dict.fromkeys(prefixes))
        raise InputError(
            f"the arrays' names have several prefixes ({shown}): expected those of one layer",
            hint="give the arrays of one layer, or name them q, k, v",
        )
    return known


def _index(words: Words) -> dict[str, str]:
    return {_plain(word): ours for ours, theirs in words.items() for word in theirs}


def _last_part(name: str) -> str:
    return re.split(r"[./:]", name)[-1]


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()
