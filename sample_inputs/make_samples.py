"""Makes the files of this folder again, byte for byte: python sample_inputs/make_samples.py

The sentences' vectors are set by hand, so that the weights tell something; no model made them.
The arrays without tokens are seeded random numbers.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        "padding.json": as_json(padding()),
        "sentence.csv": sentence(),
        "three_tokens.json": as_json(three_tokens()),
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


def three_tokens() -> dict[str, Any]:
    """The smallest example that can be followed with a pencil."""
    return {
        "tokens": ["cats", "chase", "mice"],
        "vectors": [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]],
    }


def sentence() -> bytes:
    """Four features a word: determiner, thing, place, event. "it" looks at "cat" most."""
    words: list[tuple[str, list[float]]] = [
        ("The", [1.5, 0.2, 0.0, 0.0]),
        ("cat", [0.3, 2.4, 0.4, 0.5]),
        ("sat", [0.0, 0.9, 0.6, 1.8]),
        ("on", [0.2, 0.0, 1.4, 0.7]),
        ("the", [1.4, 0.1, 0.2, 0.0]),
        ("mat", [0.4, 0.5, 2.2, 0.1]),
        ("because", [0.1, 0.0, 0.1, 0.9]),
        ("it", [0.6, 1.5, 0.3, 0.2]),
        ("was", [0.0, 0.4, 0.0, 1.5]),
        ("tired", [-0.3, 1.6, -0.4, 1.2]),
    ]
    lines = ["token,determiner,thing,place,event"]
    lines += [",".join([word, *map(str, vector)]) for word, vector in words]
    return ("\n".join(lines) + "\n").encode()


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


def bfloat16() -> bytes:
    """q, k, v in the precision that most checkpoints have and numpy lacks."""
    rng = np.random.default_rng(3)
    return as_safetensors_bf16({name: _normal(rng, 1, 2, 5, 8) for name in ("q", "k", "v")})


def _normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    # Three decimals: the same numbers wherever the last bit of a normal deviate may differ.
    return rng.standard_normal(shape).round(3).astype(np.float32)


def as_json(fields: Mapping[str, Any]) -> bytes:
    """One line a vector, so that a person can read and change it."""
    parts = [f"  {json.dumps(name)}: {_lines(value, '  ')}" for name, value in fields.items()]
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def _lines(value: Any, indent: str) -> str:
    if not (isinstance(value, list) and isinstance(value[0], list)):
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    rows = [inner + _lines(part, inner) for part in value]
    return "[\n" + ",\n".join(rows) + f"\n{indent}]"


def as_npz(**arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # members carry the date 1980-01-01
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return file.getvalue()


def as_safetensors_bf16(arrays: Mapping[str, NDArray[np.float32]]) -> bytes:
    """The format by hand: header length, JSON header, bytes."""
    header: dict[str, Any] = {}
    body = b""
    for name, array in arrays.items():
        data = _to_bfloat16(array).tobytes()
        end = len(body) + len(data)
        header[name] = {"dtype": "BF16", "shape": array.shape, "data_offsets": [len(body), end]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def _to_bfloat16(array: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper half of each float32, rounded to nearest, ties to even."""
    bits = array.astype("<f4").view("<u4")
    odd = (bits >> 16) & 1
    halves: NDArray[np.uint16] = ((bits + 0x7FFF + odd) >> 16).astype("<u2")
    return halves


def main() -> None:
    for name, content in samples().items():
        (HERE / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes")


if __name__ == "__main__":
    main()
