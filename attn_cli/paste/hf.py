"""The mask for Hugging Face transformers: a number to add, 0 or the dtype's least, (B, 1, L, S)."""

from __future__ import annotations

from attn_cli.paste.sheet import Sheet, dense, program

POLARITY = "added to the scores: 0 = may attend, finfo(dtype).min = hidden"
EMPTY = "with finfo.min it looks at every key alike, hidden ones included"
CALL = "model(input_ids=input_ids, attention_mask=attention_mask)"


def write(sheet: Sheet) -> str:
    """Code that makes `attention_mask` for `model`, in its dtype and on its device."""
    one = sheet.expression.code(sheet.writing())
    context = sheet.context
    heading = sheet.heading(POLARITY, EMPTY)
    heads = context.heads if one.uses("h") else 1
    sizes = f"{context.batch}, {heads}, {context.queries}, {context.keys}"
    lines = [
        *dense(sheet, one),
        f"attention_mask = torch.zeros({sizes}, dtype=dtype, device=device)",
        "attention_mask = attention_mask.masked_fill(~mask, torch.finfo(dtype).min)",
        f"# output = {CALL}",
    ]
    return program(
        [*one.imports, "import torch"],
        [*heading, "dtype, device = model.dtype, model.device", *lines],
    )
