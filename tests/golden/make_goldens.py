"""Makes goldens.json: attention by the formula in mpmath at 50 digits, on a few small inputs.

    python tests/golden/make_goldens.py

It knows nothing of attn: plain lists, one number at a time, no maximum subtracted. Numbers are
written as the nearest float64 in hexadecimal; what is not finite as nan, inf, -inf.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from mpmath import mp, mpf  # type: ignore[import-untyped]

GOLDENS = Path(__file__).with_name("goldens.json")
DIGITS = 50
NAN, INF = mpf("nan"), mpf("inf")
FILL = -10_000  # an additive entry at or below this does not count as visible

Case = dict[str, Any]
Numbers = Any  # nested lists of float or mpf


def numbers(seed: int, *shape: int, size: float = 1.0) -> Numbers:
    """Numbers of three decimals between −2 and 2, times `size`; the same on every Python."""
    draw = random.Random(seed)
    return _filled(shape, lambda: round((draw.random() * 4 - 2) * size, 3))


def _filled(shape: tuple[int, ...], make: Any) -> Numbers:
    return [_filled(shape[1:], make) for _ in range(shape[0])] if shape else make()


def case(
    seed: int, *, B: int = 1, H: int = 1, Hkv: int = 0, L: int = 3, S: int = 3, d_k: int = 4,
    d_v: int = 3, size: float = 1.0, **more: Any,
) -> Case:  # fmt: skip
    """Seeded q, k, v; `more` are mask, additive, bias (L × S), sinks, scale, softcap, q_offset."""
    return {
        "q": numbers(seed, B, H, L, d_k, size=size),
        "k": numbers(seed + 1000, B, Hkv or H, S, d_k, size=size),
        "v": numbers(seed + 2000, B, Hkv or H, S, d_v),
        **more,
    }


CAUSAL = [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
CASES: dict[str, Case] = {
    "plain": case(1),
    "one_token": case(2, L=1, S=1),
    "grouped": case(3, B=2, H=4, Hkv=2, mask=CAUSAL),
    "one_kv_head": case(4, H=3, Hkv=1, d_v=1),
    "more_keys": case(5, L=2, S=5, q_offset=3, mask=[[1, 1, 1, 1, 0], [1] * 5]),
    "more_queries": case(6, L=4, S=2, H=2),
    "empty_row": case(7, H=2, mask=[[1, 0, 1], [0, 0, 0], [1, 1, 1]]),
    "additive_inf": case(8, additive=[[0, -INF, 0.5], [-INF, -INF, -INF], [0.25, 0, -INF]]),
    "additive_1e9": case(9, additive=[[0, -1e9, 0], [-1e9, -1e9, -1e9], [0, 0, -1e9]]),
    "sinks": case(10, H=2, sinks=[0.75, -3.5], mask=CAUSAL),
    "sink_over_empty_row": case(11, sinks=[1.5], mask=[[0, 0, 0], [1, 1, 0], [1, 1, 1]]),
    "softcap": case(12, softcap=1.5, size=3.0),
    "bias": case(13, H=2, bias=[[0.5, -1, 2], [0, 0, -0.25], [3, 1, 0]]),
    "scale": case(14, scale=0.25),
    "no_scale": case(15, scale=1.0, d_k=16),
    "large": case(16, size=30.0, scale=1.0, mask=CAUSAL),
    "tiny": case(17, size=0.002),
    "everything": case(
        18, B=2, H=4, Hkv=2, L=2, S=4, scale=0.6, softcap=2.0, sinks=[0.5, -1, 0, 2], q_offset=2,
        mask=[[1, 1, 1, 0], [0, 1, 1, 1]], additive=[[0, -INF, 0.5, 0], [1, 0, -1e9, 0]],
        bias=[[0.5, 0, -1, 2], [0, 0.25, 0, -0.5]],
    ),
}  # fmt: skip


def attend(case: Case) -> dict[str, Numbers]:
    """Every stage (B, H, L, …) and every number a row (B, H, L) of one case."""
    B, H, L = len(case["q"]), len(case["q"][0]), len(case["q"][0][0])
    rows = {where: row(case, *where) for where in product(range(B), range(H), range(L))}
    return {
        name: [[[rows[b, h, i][name] for i in range(L)] for h in range(H)] for b in range(B)]
        for name in rows[0, 0, 0]
    }


def row(case: Case, b: int, h: int, i: int) -> dict[str, Any]:
    """One query of one head: its stages over the keys, its output and its statistics."""
    group = len(case["q"][0]) // len(case["k"][0])
    q = [mpf(x) for x in case["q"][b][h][i]]
    k = [[mpf(x) for x in key] for key in case["k"][b][h // group]]
    v = [[mpf(x) for x in value] for value in case["v"][b][h // group]]
    keys = range(len(k))
    keep = [case["mask"][i][j] if "mask" in case else 1 for j in keys]
    add = [mpf(case["additive"][i][j]) if "additive" in case else mpf(0) for j in keys]
    bias = [mpf(case["bias"][i][j]) if "bias" in case else mpf(0) for j in keys]
    scale = mpf(case["scale"]) if "scale" in case else 1 / mp.sqrt(len(q))

    scores = [mp.fsum(x * y for x, y in zip(q, key, strict=True)) for key in k]
    scaled = [s * scale for s in scores]
    capped = [s if "softcap" not in case else _capped(s, mpf(case["softcap"])) for s in scaled]
    biased = [s + x for s, x in zip(capped, bias, strict=True)]
    masked = [biased[j] + add[j] if keep[j] else -INF for j in keys]
    seen = [j for j in keys if masked[j] != -INF]
    total = mp.fsum(mp.exp(masked[j]) for j in seen)
    if "sinks" in case:
        total += mp.exp(mpf(case["sinks"][h]))
    weights = [mp.exp(masked[j]) / total if j in seen else mpf(0) for j in keys]
    context = [mp.fsum(weights[j] * v[j][f] for j in keys) for f in range(len(v[0]))]
    return {
        "scores": scores,
        "scaled": scaled,
        "softcapped": capped,
        "biased": biased,
        "masked": masked,
        "weights": weights,
        "context": context,
        "lse": mp.log(total) if seen else -INF,
        "empty": mpf(not seen),
        "sum": mp.fsum(weights),
        "visible_keys": mpf(sum(add[j] > FILL for j in seen)),
        **statistics(weights, sum(add[j] > FILL for j in seen), i + case.get("q_offset", 0), seen),
    }


def _capped(score: Any, cap: Any) -> Any:
    return cap * mp.tanh(score / cap)


def statistics(weights: list[Any], visible: int, position: int, seen: list[int]) -> dict[str, Any]:
    """By their definitions; NaN in an empty row, and H / ln n where n < 2 keys are visible."""
    if not seen:
        return dict.fromkeys(
            ("entropy", "effective_keys", "normalized_entropy", "max_weight", "mean_distance",
             "first_key_weight"), NAN,
        )  # fmt: skip
    entropy = -mp.fsum(w * mp.log(w) for w in weights if w > 0)
    return {
        "entropy": entropy,
        "effective_keys": mp.exp(entropy),
        "normalized_entropy": entropy / mp.log(visible) if visible > 1 else NAN,
        "max_weight": max(weights),
        "mean_distance": mp.fsum(w * abs(position - j) for j, w in enumerate(weights)),
        "first_key_weight": weights[0],
    }


def goldens() -> dict[str, Any]:
    """Every case with its inputs and its answers, numbers as text."""
    with mp.workdps(DIGITS):
        return {
            name: {"inputs": _written(case), "answers": _written(attend(case))}
            for name, case in CASES.items()
        }


def _written(named: dict[str, Numbers]) -> dict[str, Any]:
    return {
        name: {
            "shape": " ".join(map(str, _shape(value))),
            "hex": " ".join(float(x).hex() for x in _flat(value)),
        }
        for name, value in named.items()
    }


def _shape(value: Numbers) -> tuple[int, ...]:
    return (len(value), *_shape(value[0])) if isinstance(value, list) else ()


def _flat(value: Numbers) -> Iterator[Any]:
    if not isinstance(value, list):
        yield value
        return
    for part in value:
        yield from _flat(part)


if __name__ == "__main__":
    GOLDENS.write_text(json.dumps(goldens(), indent=1) + "\n", encoding="utf-8")
