"""Makes the files of this folder again, byte for byte: python -m sample_inputs.make_samples

The sentences' vectors and the two models are set by hand, so that the weights tell something;
nothing was trained. The arrays without tokens are seeded random numbers.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sample_inputs.encoding import Matrix, as_json, as_model, as_npz, as_safetensors_bf16

HERE = Path(__file__).parent


def samples() -> dict[str, bytes]:
    """File name → content."""
    return {
        "apple.json": as_json(apple()),
        "bfloat16.safetensors": bfloat16(),
        "decode.npz": decode(),
        "empty_row.json": as_json(empty_row()),
        "float16_overflow.npz": float16_overflow(),
        "gqa.npz": gqa(),
        "induction.safetensors": induction(),
        "layer.npz": layer(),
        "padding.json": as_json(padding()),
        "port_leaks.npz": ported(sees_next=1),
        "port_right.npz": ported(sees_next=0),
        "sentence.csv": sentence(),
        "sentence_model.safetensors": sentence_model(),
        "three_tokens.json": as_json(three_tokens()),
        "tiny_gemma2/config.json": tiny_gemma2(),
        "translation.json": as_json(translation()),
    }


def apple() -> dict[str, Any]:
    """Two heads of width 4: in head 0 苹果 finds its verb, in head 1 its subject."""
    return {
        "tokens": ["我", "喜欢", "苹果"],
        "vectors": [
            [0.9, 0.2, -0.5, 0.4, 2.0, -0.6, 1.2, 0.1],
            [-0.6, 2.8, 0.4, -1.1, 0.7, 0.9, 0.5, -0.4],
            [0.3, 0.9, 0.8, -0.2, 1.0, -0.8, 0.4, 0.9],
        ],
        "settings": {"heads": 2, "mask": "causal"},
    }


def tiny_gemma2() -> bytes:
    """A configuration of Gemma 2, as small as it can be: windows, grouped heads, a softcap.

    There are no weights and no tokenizer: attn model draws them, and an input.
    """
    config = {
        "model_type": "gemma2",
        "architectures": ["Gemma2ForCausalLM"],
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 20.0,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "initializer_range": 0.4,
        "vocab_size": 100,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    }
    return (json.dumps(config, indent=2) + "\n").encode()


def three_tokens() -> dict[str, Any]:
    """The smallest example that can be followed with a pencil."""
    return {
        "tokens": ["cats", "chase", "mice"],
        "vectors": [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]],
    }


def sentence() -> bytes:
    """Four features a word: determiner, thing, place, event. "it" looks at "cat" most."""
    return b"""token,determiner,thing,place,event
The,1.5,0.2,0.0,0.0
cat,0.3,2.4,0.4,0.5
sat,0.0,0.9,0.6,1.8
on,0.2,0.0,1.4,0.7
the,1.4,0.1,0.2,0.0
mat,0.4,0.5,2.2,0.1
because,0.1,0.0,0.1,0.9
it,0.6,1.5,0.3,0.2
was,0.0,0.4,0.0,1.5
tired,-0.3,1.6,-0.4,1.2
"""


def translation() -> dict[str, Any]:
    """Cross-attention: English queries, French keys, with the adjective on the other side."""
    return {
        "tokens": ["a", "red", "apple"],
        "vectors": [[2.2, 0.1, 0.0, 0.3], [0.1, 0.2, 2.6, 0.4], [0.0, 2.4, 0.5, 0.2]],
        "context_tokens": ["une", "pomme", "rouge", "."],
        "context": [
            [2.0, 0.2, 0.1, 0.4],
            [0.1, 2.5, 0.4, 0.1],
            [0.2, 0.3, 2.3, 0.3],
            [0.2, 0.1, 0.1, 0.5],
        ],
    }


def padding() -> dict[str, Any]:
    """A batch of two: the second sentence is two tokens shorter, and says so with lengths."""
    pad = [0.0, 0.0, 0.0, 0.0]
    return {
        "tokens": [["good", "morning", "everyone", "!"], ["thank", "you", "<pad>", "<pad>"]],
        "lengths": [4, 2],
        "vectors": [
            [
                [1.1, 0.3, 0.0, 0.2],
                [0.8, 1.4, 0.1, 0.0],
                [0.1, 0.6, 1.7, 0.3],
                [0.0, 0.2, 0.4, 1.2],
            ],
            [[1.3, 0.1, 0.5, 0.0], [0.4, 0.2, 1.6, 0.1], pad, pad],
        ],
    }


def empty_row() -> dict[str, Any]:
    """A mask with a mistake: the second query may look at nothing at all."""
    return {
        "tokens": ["all", "or", "nothing"],
        "vectors": [[1.0, 0.5, 0.0, 0.2], [0.3, 1.2, 0.4, 0.0], [0.0, 0.6, 1.1, 0.7]],
        "mask": [[True, False, False], [False, False, False], [True, True, True]],
    }


def gqa() -> bytes:
    """Six query heads that share two key/value heads; every axis has a size of its own."""
    rng = np.random.default_rng(7)
    return as_npz(
        q=_normal(rng, 1, 6, 4, 8),
        k=_normal(rng, 1, 2, 5, 8),
        v=_normal(rng, 1, 2, 5, 3),
    )


def layer() -> bytes:
    """The projections of an attention layer for apple.json, by the names that Llama's have.

    Two heads of d_k 6 and d_v 5, so that shapes tell (out, in) from (in, out).
    """
    rng = np.random.default_rng(13)
    shapes = {"q_proj": (12, 8), "k_proj": (12, 8), "v_proj": (10, 8), "o_proj": (8, 10)}
    return as_npz(
        **{f"self_attn.{name}.weight": _normal(rng, *shape) / 2 for name, shape in shapes.items()}
    )


def decode() -> bytes:
    """The last two queries of five positions, as a key/value cache leaves them."""
    rng = np.random.default_rng(11)
    return as_npz(
        q=_normal(rng, 1, 2, 2, 8), k=_normal(rng, 1, 2, 5, 8), v=_normal(rng, 1, 2, 5, 8)
    )


def float16_overflow() -> bytes:
    """q · kᵀ beyond 65504 before the scale: inf where it is computed in float16."""
    rng = np.random.default_rng(5)
    q = 40.0 * _normal(rng, 1, 1, 4, 64)
    k = q + _normal(rng, 1, 1, 4, 64)
    half = {"q": q, "k": k, "v": _normal(rng, 1, 1, 4, 64)}
    return as_npz(**{name: array.astype(np.float16) for name, array in half.items()})


def ported(*, sees_next: int) -> bytes:
    """The stages of causal attention as a port dumps them: float32, with names of its own.

    `sees_next` 1: the mask begins one diagonal too late. q and k are eighths, so scores are exact.
    """
    rng = np.random.default_rng(20)
    query, key, value = (rng.integers(-16, 17, (1, 2, 5, 4)) / 8 for _ in range(3))
    scores = np.einsum("bhqd,bhkd->bhqk", query, key)
    seen = np.tri(5, k=sees_next, dtype=bool)
    grown = np.array([math.exp(score) for score in (scores / 2).flat]).reshape(scores.shape) * seen
    weights = (grown / grown.sum(-1, keepdims=True)).astype(np.float32)
    context = np.einsum("bhqk,bhkd->bhqd", weights.astype(np.float64), value)
    stages = {"query": query, "key": key, "value": value, "attn_scores": scores}
    stages |= {"attn_weights": weights, "context": context}
    return as_npz(**{name: array.astype(np.float32) for name, array in stages.items()})


def bfloat16() -> bytes:
    """q, k, v in the precision that most checkpoints have and numpy lacks."""
    rng = np.random.default_rng(3)
    return as_safetensors_bf16({name: _normal(rng, 1, 2, 5, 8) for name in ("q", "k", "v")})


# The induction model. Its stream is 34 numbers a position, and every block of them means something:
LETTERS = "abcdefgh"
HANDS = (4, 5)  # a clock with two hands tells 4 · 5 = 20 positions apart
TOKEN = slice(0, 8)  # which letter stands here: a 1 in its place, the embedding
CLOCK = slice(8, 17)  # at which position: a 1 for position mod 4, a 1 for position mod 5
FIRST = 17  # 1 at position 0
BEFORE = slice(18, 26)  # which letter stands one position before; layer 0 writes it
AFTER = slice(26, 34)  # which letter came after this one earlier on; layer 1 writes it
WIDTH = 34


def induction() -> bytes:
    """Two layers that continue what they have read: after `a b c … a` they expect `b`.

    Attention alone, no LayerNorm; scores are not scaled (scale none), so a score is the product
    that stands in the matrices. They are 16 apart, and e^16 is 9 million: a row has a clear winner.
    """
    arrays = {
        "embedding.weight": _rows(TOKEN, np.eye(8)).T,
        "positions.weight": _clock(),
        **_previous_token_layer("layers.0."),
        **_induction_layer("layers.1."),
        # A letter's logit: 8 where layer 1 found it, less 8 where it already stands here. A letter
        # that found only itself expects nothing: all logits are 0, all letters as likely.
        "unembedding.weight": 8 * (_rows(AFTER, np.eye(8)) - _rows(TOKEN, np.eye(8))).T,
    }
    config = {
        "layers": 2,
        "heads": 1,
        "d_model": WIDTH,
        "d_k": 9,
        "d_v": 8,
        "mask": "causal",
        "positions": "learned",
        "scale": "none",
    }
    return as_model(arrays, config, list(LETTERS))


def _clock() -> Matrix:
    """A row for each of 20 positions: where the two hands stand, and whether it is the first."""
    table = np.zeros((HANDS[0] * HANDS[1], WIDTH))
    for position, row in enumerate(table):
        row[CLOCK.start + position % 4] = 1
        row[CLOCK.start + 4 + position % 5] = 1
        row[FIRST] = position == 0
    return table


def _previous_token_layer(name: str) -> dict[str, Matrix]:
    """Layer 0: every position looks at the one before it and notes which letter stands there.

    w_q turns both hands of the clock back by one, w_k reads them as they are. A hand that agrees
    scores 4 · 4 = 16: the position before has 32, every other one at most 16, since two hands agree
    only once in 20 positions. w_v reads the letter, w_o writes it where the stream keeps it.
    """
    back = np.zeros((9, 9))
    for start, size in ((0, 4), (4, 5)):
        for hand in range(size):
            back[start + hand, start + (hand - 1) % size] = 1
    return {
        f"{name}w_q": _rows(CLOCK, 4 * back),
        f"{name}w_k": _rows(CLOCK, 4 * np.eye(9)),
        f"{name}w_v": _rows(TOKEN, np.eye(8)),
        f"{name}w_o": _rows(BEFORE, np.eye(8)).T,
    }


def _induction_layer(name: str) -> dict[str, Matrix]:
    """Layer 1: a letter looks for the position that came after the same letter earlier on.

    w_q reads the letter, times 4; its ninth number is 4 for every letter. w_k scores 4 · 8 = 32
    where the letter before the key is the query's own: there the pair was seen before. It scores
    4 · 4 = 16 where the key is that letter itself: so a letter that is new rests on itself. Before
    position 0 there is nothing, and its row in layer 0 could only find itself; −16 · 4 = −64 there
    undoes that. w_v reads the letter that was found, w_o writes it for the unembedding.
    """
    letters = np.eye(8, 9)
    ninth = np.eye(1, 9, 8)
    return {
        f"{name}w_q": _rows(TOKEN, 4 * (letters + ninth)),
        f"{name}w_k": _rows(BEFORE, 8 * letters)
        + _rows(TOKEN, 4 * letters)
        + _rows(slice(FIRST, FIRST + 1), -16 * ninth),
        f"{name}w_v": _rows(TOKEN, np.eye(8)),
        f"{name}w_o": _rows(AFTER, np.eye(8)).T,
    }


# The sentence model: seven words, a number of the stream each, and one to note things.
WORDS = ["我", "你", "喜欢", "吃", "苹果", "香蕉", "。"]
PERSON, VERB, FRUIT, STOP, NOTE = [0, 1], [2, 3], [4, 5], [6], 7


def sentence_model() -> bytes:
    """One layer with all that a layer may have: two heads, LayerNorm, ALiBi, a residual.

    Head 0 asks who does what: a verb looks for its person, a fruit for its verb, a stop for its
    fruit. Head 1 keeps the person in sight, and softly so.
    """
    w_q, w_k, w_v, w_o = (np.zeros((8, 8)) for _ in range(4))
    for place, (asking, asked) in enumerate(((VERB, PERSON), (FRUIT, VERB), (STOP, FRUIT))):
        w_q[asking, place] = w_k[asked, place] = 0.875
    w_v[VERB, 0] = w_o[0, NOTE] = 1  # head 0 notes that there was a verb
    w_q[VERB + FRUIT + STOP, 4] = 0.75
    w_k[PERSON, 4] = 1
    w_v[0, 4] = w_v[1, 5] = 1  # head 1 adds half of the person to the stream
    w_o[4, 0] = w_o[5, 1] = 0.5
    arrays = {
        "embedding.weight": np.hstack([2 * np.eye(7), np.zeros((7, 1))]),
        "layers.0.norm.weight": np.ones(8),
        "layers.0.w_q": w_q,
        "layers.0.w_k": w_k,
        "layers.0.w_v": w_v,
        "layers.0.w_o": w_o,
        "final_norm.weight": np.ones(8),
        "unembedding.weight": _what_follows(),
    }
    config = {
        "layers": 1,
        "heads": 2,
        "d_model": 8,
        "mask": "causal",
        "positions": "alibi",
        "norm": "pre",
    }
    return as_model(arrays, config, WORDS)


def _what_follows() -> Matrix:
    """After a person a verb, after a verb a fruit, after a fruit with its verb a stop, after a stop
    a person; and one may like a person, though not the one whom head 1 found.
    """
    words = np.zeros((7, 8))
    words[VERB, :2] = 1.25
    words[2, PERSON] += 0.25  # to like is more common than to eat
    words[FRUIT, 2], words[FRUIT, 3] = 1, 1.25
    words[STOP, 4:6] = words[STOP, NOTE] = 1
    words[PERSON, STOP] = 1
    words[PERSON, 2] = 0.625
    words[PERSON, PERSON] = -1  # each reads its own number
    return words


def _rows(block: slice, part: Matrix) -> Matrix:
    """A matrix from the stream, (34, columns of `part`): `part` in the rows of `block`, else 0."""
    matrix = np.zeros((WIDTH, part.shape[1]))
    matrix[block] = part
    return matrix


def _normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    # Three decimals: the same numbers wherever the last bit of a normal deviate may differ.
    return rng.standard_normal(shape).round(3).astype(np.float32)


def main() -> None:
    for name, content in samples().items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes")


if __name__ == "__main__":
    main()
