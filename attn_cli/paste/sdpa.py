"""The mask for F.scaled_dot_product_attention: bool, True = may attend; is_causal where it is."""

from __future__ import annotations

from attn_cli.paste.sheet import Sheet, dense, program

CALL = "output = F.scaled_dot_product_attention(query, key, value"
EMPTY = "scaled_dot_product_attention returns 0 there, not NaN"


def write(sheet: Sheet) -> str:
    """Code that calls it on `query`, `key` and `value` of (B, H, L, d)."""
    imports = ["import torch.nn.functional as F"]
    if str(sheet.expression) == "causal" and sheet.context.q_offset == 0:
        said = "is_causal: query i sees keys 0 to i, so query 0 is key 0 (upper-left)"
        return program(imports, [*sheet.heading(said, EMPTY), f"{CALL}, is_causal=True)"])
    if str(sheet.expression) == "none":
        return program(imports, [*sheet.heading("no mask", EMPTY), f"{CALL})"])
    one = sheet.expression.code(sheet.writing())
    heading = sheet.heading("polarity: True = may attend", EMPTY)
    return program(
        [*one.imports, "import torch", *imports],
        [*heading, "device = query.device", *dense(sheet, one), f"{CALL}, attn_mask=mask)"],
    )
