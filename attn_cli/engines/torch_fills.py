"""What PyTorch makes of fill values and of rows that see no key, measured when it is asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_cli.core.results_fills import EmptyRowCase, FillCase, FillsResult, How, RowKind
from attn_cli.core.rounding import precision

DTYPES = ("float64", "float32", "float16", "bfloat16")
SCORES = (1.0, 2.0, 0.5, -1.0)
HIDDEN = (1,)  # of the visible row: the key that would get most
INF = float("inf")
ROUNDING = 2  # eps; softmax of four numbers near 1 is off by less
REFUSED = "does not fit"

FILLS = ("-1e9", "-inf", "finfo.min")
HOWS: tuple[How, ...] = ("filled", "added")
ROWS: tuple[RowKind, ...] = ("visible", "empty")


def measure_fills() -> FillsResult:
    """Every fill, filled and added, in every dtype, on a visible and on an empty row."""
    scores = torch.tensor(SCORES, dtype=torch.float64)
    masked = scores.masked_fill(_hidden("visible"), -INF)
    return FillsResult(
        torch=str(torch.__version__),
        scores=SCORES,
        hidden=HIDDEN,
        softmax=_plain(torch.softmax(scores, -1)),
        masked_softmax=_plain(torch.softmax(masked, -1)),
        fills=tuple(_fill_case(*case) for case in itertools.product(ROWS, HOWS, FILLS, DTYPES)),
        empty_rows=tuple(_empty_row_cases()),
    )


def _fill_case(row: RowKind, how: How, name: str, dtype: str) -> FillCase:
    fill = _fill(name, dtype)
    scores = torch.tensor(SCORES, dtype=getattr(torch, dtype))
    act = _filled if how == "filled" else _added
    weights, error = _tried(lambda: torch.softmax(act(scores, _hidden(row), fill), -1))
    in_dtype = float(torch.tensor(fill, dtype=torch.float64).to(scores.dtype))
    outcome = _outcome(weights, row, dtype) if weights else REFUSED
    return FillCase(row, how, name, in_dtype, dtype, weights, outcome, error)


def _filled(scores: Tensor, hidden: Tensor, fill: float) -> Tensor:
    return scores.masked_fill(hidden, fill)


def _added(scores: Tensor, hidden: Tensor, fill: float) -> Tensor:
    return scores + _additive(hidden, fill, scores.dtype)


def _additive(hidden: Tensor, fill: float, dtype: torch.dtype) -> Tensor:
    """0 and the fill, rounded to the dtype as a cast does: beyond its range it becomes −inf."""
    return torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, fill).to(dtype)


def _fill(name: str, dtype: str) -> float:
    return torch.finfo(getattr(torch, dtype)).min if name == "finfo.min" else float(name)


def _hidden(row: RowKind) -> Tensor:
    keys = torch.arange(len(SCORES))
    return torch.isin(keys, torch.tensor(HIDDEN)) if row == "visible" else keys >= 0


def _outcome(weights: tuple[float, ...], row: RowKind, dtype: str) -> str:
    """What the weights of a row are, up to the rounding of the dtype."""
    scores = torch.tensor(SCORES, dtype=torch.float64)
    right = torch.softmax(scores.masked_fill(_hidden("visible"), -INF), -1)
    known = {
        "zeros": torch.zeros(len(SCORES)),
        "uniform": torch.full((len(SCORES),), 1 / len(SCORES)),
        "unmasked softmax": torch.softmax(scores, -1),
    }
    if row == "visible":
        known = {"masked softmax": right, **known}
    found = torch.tensor(weights, dtype=torch.float64)
    if found.isnan().any():
        return "NaN"
    tolerance = ROUNDING * precision(dtype).eps
    for name, expected in known.items():
        if torch.allclose(found, expected.to(torch.float64), rtol=0, atol=tolerance):
            return name
    return "other"


def _empty_row_cases() -> Iterator[EmptyRowCase]:
    for dtype in DTYPES:
        for function, mask, call in _calls(dtype):
            weights, error = _tried(call)
            outcome = _outcome(weights, "empty", dtype) if weights else "raises"
            yield EmptyRowCase(function, mask, dtype, weights, outcome, error)


def _calls(dtype: str) -> Iterator[tuple[str, str, Callable[[], Tensor]]]:
    """Each function with a mask that hides every key of the second row; V = I shows its weights."""
    kind = getattr(torch, dtype)
    query = torch.zeros(2, 4, dtype=kind)
    query[:, 0] = 2.0  # against the scale 1/√4
    key = torch.zeros(4, 4, dtype=kind)
    key[:, 0] = torch.tensor(SCORES, dtype=kind)
    value = torch.eye(4, dtype=kind)
    hidden = torch.stack([_hidden("visible"), _hidden("empty")])
    filled = (query @ key.mT * 0.5).masked_fill(hidden, -INF)
    yield "torch.softmax", "filled with -inf", lambda: torch.softmax(filled, -1)[1]

    def sdpa(mask: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(
            query[None, None], key[None, None], value[None, None], attn_mask=mask
        )
        return out[0, 0, 1]

    yield "F.scaled_dot_product_attention", "bool", lambda: sdpa(~hidden)
    for name in FILLS:
        added = _additive(hidden, _fill(name, dtype), kind)
        yield "F.scaled_dot_product_attention", f"added {name}", lambda a=added: sdpa(a)  # type: ignore[misc]
    mha = _identity_attention(kind)
    for argument, mask in (("attn_mask", hidden), ("key_padding_mask", hidden[1:])):
        yield (
            "nn.MultiheadAttention",
            f"bool {argument}",
            lambda a=argument, m=mask: mha(query[None], key[None], value[None], **{a: m})[0][0, 1],  # type: ignore[misc]
        )


def _identity_attention(dtype: torch.dtype) -> torch.nn.MultiheadAttention:
    """One head whose projections change nothing."""
    mha = torch.nn.MultiheadAttention(4, 1, bias=False, batch_first=True, dtype=dtype)
    with torch.no_grad():
        mha.in_proj_weight.copy_(torch.eye(4, dtype=dtype).repeat(3, 1))
        mha.out_proj.weight.copy_(torch.eye(4, dtype=dtype))
    return mha.eval()


def _tried(call: Callable[[], Tensor]) -> tuple[tuple[float, ...], str]:
    """What the call returns as numbers; or nothing, and the first line of what it raised."""
    try:
        with torch.no_grad():
            return _plain(call()), ""
    except RuntimeError as error:
        return (), (str(error).splitlines() or ["no reason given"])[0]


def _plain(weights: Tensor) -> tuple[float, ...]:
    return tuple(weights.double().tolist())
