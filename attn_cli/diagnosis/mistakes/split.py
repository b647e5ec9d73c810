"""Mistakes in how heads are split, grouped and merged, and in the output projection."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Array, Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, one, where


def _splits(setting: Setting) -> bool:
    return setting.splits


def _merges(setting: Setting) -> bool:
    return setting.splits and setting.projected


def _grouped(setting: Setting) -> bool:
    intent = setting.plan.intent
    return intent.kv_heads is not None and intent.kv_heads != intent.heads


def _out(setting: Setting) -> bool:
    return setting.out_projected


def _by_view(letters: str) -> Step:
    def split(work: Work) -> None:
        right.split(work)
        for letter in letters:
            flat = getattr(work, f"flat_{letter}")
            setattr(work, letter, flat.reshape(getattr(work, letter).shape))

    return split


def _views(setting: Setting) -> Iterator[Variant]:
    for letters in ("qkv", "kv", "q", "k", "v"):
        names = ", ".join(letters)
        yield Variant(f"{names}: view(B, heads, T, width)", {"split": _by_view(letters)})


def _interleaved_split(work: Work) -> None:
    for letter in "qkv":
        flat, count = getattr(work, f"flat_{letter}"), right.head_count(work, letter)
        parts = flat.reshape(*flat.shape[:2], -1, count)
        setattr(work, letter, parts.transpose(0, 3, 1, 2))


def _tile(work: Work) -> None:
    count = work.q.shape[1] // work.k.shape[1]
    work.k, work.v = (_tiled(array, count) for array in (work.k, work.v))


def _tiled(array: Array, count: int) -> Array:
    heads = array.shape[1]
    return array[:, [h % heads for h in range(heads * count)]]


def _repeat_flat(work: Work) -> None:
    """Every number of k and v, their heads side by side, repeated; then split into query heads."""
    count = work.q.shape[1] // work.k.shape[1]
    for letter in "kv":
        array = getattr(work, letter).swapaxes(1, 2)
        flat = array.reshape(*array.shape[:2], -1).repeat(count, -1)
        parts = flat.reshape(*flat.shape[:2], work.heads, -1)
        setattr(work, letter, parts.swapaxes(1, 2))


def _repeat_wide(work: Work) -> None:
    """Every feature of a head repeated, then the numbers viewed as the query heads."""
    count = work.q.shape[1] // work.k.shape[1]
    for letter in "kv":
        array = getattr(work, letter)
        shape = (array.shape[0], work.heads, *array.shape[2:])
        setattr(work, letter, array.repeat(count, -1).reshape(shape))


def _elements(setting: Setting) -> Iterator[Variant]:
    yield Variant("repeated before the split into heads", {"group": _repeat_flat})
    yield Variant("repeated after the split into heads", {"group": _repeat_wide})


def merge_as_it_lies(work: Work) -> None:
    """(B, H, L, d) reshaped to (B, L, H·d) as the numbers lie."""
    batch, heads, length, width = work.context.shape
    work.merged = work.context.reshape(batch, length, heads * width)


def _merge_interleaved(work: Work) -> None:
    batch, heads, length, width = work.context.shape
    work.merged = work.context.transpose(0, 2, 3, 1).reshape(batch, length, heads * width)


def _no_out(work: Work) -> None:
    work.output = work.merged


def _out_turned(work: Work) -> None:
    if (matrix := work.matrices["w_o"]) is not None:
        work.matrices["w_o"] = matrix.T
    right.out(work)


HEADS_SPLIT_BY_VIEW = Mistake(
    "heads_split_by_view",
    "split",
    "heads are split by view(B, heads, T, width) alone",
    "The numbers of a token lie side by side: a view to (heads, T, …) cuts the sequence instead of "
    "the width, and a head gets pieces of several tokens.",
    "view(B, T, heads, width).transpose(1, 2)",
    "permuting the tokens does not permute the output, with one token it is right",
    where(_splits, _views),
)
HEADS_INTERLEAVED_ON_SPLIT = Mistake(
    "heads_interleaved_on_split",
    "split",
    "heads are split as (width, heads): each takes every n-th feature",
    "A model trained by this code is as good, but a checkpoint has the features of head 0 first.",
    "view(B, T, heads, width), the heads before the width",
    "wrong against the declared weights alone",
    where(_splits, one(split=_interleaved_split)),
)
GQA_TILE_ORDER = Mistake(
    "gqa_tile_order",
    "split",
    "key/value heads are tiled 0, 1, 0, 1, … for the query heads",
    "Query head h of grouped attention reads key/value head h // group, not h % n_kv_heads.",
    "repeat_interleave(group, dim=1) instead of repeat",
    "wrong against the declared weights alone, with one token too",
    where(_grouped, one(group=_tile)),
)
GQA_REPEAT_ELEMENTS = Mistake(
    "gqa_repeat_elements",
    "split",
    "repeat_interleave runs over the features: every number is repeated, not every head",
    "The query heads get smeared pieces of the key/value heads.",
    "repeat_interleave(group, dim=1) on (B, n_kv_heads, T, width)",
    "neighbouring features of k are equal in pairs or groups",
    where(_grouped, _elements),
)
HEADS_MERGED_WITHOUT_TRANSPOSE = Mistake(
    "heads_merged_without_transpose",
    "merge",
    "(B, heads, T, width) is reshaped to (B, T, heads·width) without moving the heads",
    "A row of the result holds several tokens of one head instead of one token of all heads.",
    "transpose(1, 2) before the reshape",
    "permuting the tokens does not permute the output; the weights are right",
    where(_merges, one(merge=merge_as_it_lies)),
)
HEADS_INTERLEAVED_ON_MERGE = Mistake(
    "heads_interleaved_on_merge",
    "merge",
    "the heads are merged feature by feature instead of side by side",
    "stack(…, dim=-1) and flatten puts feature 0 of every head first; W_o expects head after head.",
    "cat(heads, dim=-1)",
    "wrong against the declared weights alone; the tokens do not mix",
    where(_merges, one(merge=_merge_interleaved)),
)
OUT_PROJ_MISSING = Mistake(
    "out_proj_missing",
    "out_proj",
    "the output projection exists and is not applied",
    "Heads are concatenated but never mixed, and W_o is never trained.",
    "return self.out_proj(merged)",
    "the output projection's weights have no influence",
    where(_out, one(out=_no_out)),
)
OUT_PROJ_TRANSPOSED = Mistake(
    "out_proj_transposed",
    "out_proj",
    "the output matrix is used transposed",
    "A Conv1D weight is stored (in, out), nn.Linear's (out, in); where it is square nothing fails.",
    "x @ weight for (in, out), F.linear(x, weight) for (out, in)",
    "wrong against the declared layout alone",
    where(_out, one(out=_out_turned)),
)
