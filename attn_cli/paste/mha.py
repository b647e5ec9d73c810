"""The mask for nn.MultiheadAttention: bool, True = hidden; padding apart, as it takes it."""

from __future__ import annotations

from collections.abc import Sequence

from attn_cli.masks.formula import Formula, inverted, joined
from attn_cli.masks.tree import Combination, Node
from attn_cli.paste.sheet import Sheet, dense, program

POLARITY = "polarity: True = hidden, the opposite of scaled_dot_product_attention"
EMPTY = "nn.MultiheadAttention returns NaN there"


def write(sheet: Sheet) -> str:
    """Code that calls `mha`, an nn.MultiheadAttention with batch_first=True, with weights."""
    writing = sheet.writing()
    formulas = [part.code(writing) for part in _conjuncts(sheet.expression.root)]
    padding = [one for one in formulas if _is_padding(one)]
    others = [one for one in formulas if not _is_padding(one)]
    lines, arguments = ["device = query.device"], []
    if padding:
        lines += _key_padding(sheet, joined("&", padding))
        arguments.append("key_padding_mask=key_padding_mask")
    if others:
        lines += _attn_mask(sheet, joined("&", others))
        arguments.append("attn_mask=attn_mask")
    heading = sheet.heading(POLARITY, EMPTY)
    call = f"output, weights = mha(query, key, value, {', '.join(arguments)})"
    imports = dict.fromkeys(line for one in formulas for line in one.imports)
    return program([*imports, "import torch"], [*heading, *lines, call])


def _conjuncts(root: Node) -> Sequence[Node]:
    joined_by_and = isinstance(root, Combination) and root.operator == "&"
    return root.parts if isinstance(root, Combination) and joined_by_and else (root,)


def _is_padding(one: Formula) -> bool:
    """Whether it speaks of items and keys alone."""
    return one.uses("b") and not any(one.uses(name) for name in ("h", "q_idx", "q_pos"))


def _key_padding(sheet: Sheet, one: Formula) -> list[str]:
    batch, keys = sheet.context.batch, sheet.context.keys
    return [
        *one.setup,
        f"b = torch.arange({batch}, device=device)[:, None]",
        f"kv_idx = torch.arange({keys}, device=device)",
        f"key_padding_mask = {inverted(one)}  # ({batch}, {keys}), True = hidden",
    ]


def _attn_mask(sheet: Sheet, one: Formula) -> list[str]:
    """(L, S), or (B·heads, L, S) where it depends on the item or the head."""
    context = sheet.context
    lines = list(dense(sheet, one))
    if not (one.uses("b") or one.uses("h")):
        return [*lines, "attn_mask = ~mask  # True = hidden"]
    sizes = f"{context.batch}, mha.num_heads, {context.queries}, {context.keys}"
    flat = f"attn_mask = ~mask.expand({sizes}).flatten(0, 1)  # (batch · heads, query, key)"
    return [*lines, flat]
