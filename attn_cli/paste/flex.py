"""The mask for FlexAttention: a mask_mod of indices, True = may attend."""

from __future__ import annotations

from attn_cli.masks.formula import Formula
from attn_cli.paste.sheet import Sheet, program

MODULE = "torch.nn.attention.flex_attention"
EMPTY = "flex_attention returns 0 there"
CALL = "torch.compile(flex_attention)(query, key, value, block_mask=block_mask)"


def write(sheet: Sheet) -> str:
    """Code that makes `mask_mod` and `block_mask` for `query` of (B, H, L, d)."""
    one = sheet.expression.code(sheet.writing())
    heading = sheet.heading("polarity: True = may attend", EMPTY)
    imports = [
        *one.imports,
        "import torch",
        f"from {MODULE} import create_block_mask, flex_attention",
    ]
    context = sheet.context
    batch = str(context.batch) if one.uses("b") else "None"
    heads = str(context.heads) if one.uses("h") else "None"
    sizes = f"B={batch}, H={heads}, Q_LEN={context.queries}, KV_LEN={context.keys}"
    return program(
        imports,
        [*heading, "device = query.device", *one.setup],
        ["", *_mask_mod(sheet, one)],
        [
            "",
            f"block_mask = create_block_mask(mask_mod, {sizes}, device=device)",
            f"# output = {CALL}",
        ],
    )


def _mask_mod(sheet: Sheet, one: Formula) -> list[str]:
    position = sheet.position if one.uses("q_pos") else []
    return [
        "def mask_mod(b, h, q_idx, kv_idx):",
        *(f"    {line}" for line in position),
        *one.assigned("return", indent="    "),
    ]
