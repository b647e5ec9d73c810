"""Pasted code gives attn's own mask: every mask, compound expressions, every target."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch.nn.attention.flex_attention import create_mask

from attn_cli.core.masks import MaskContext, evaluate
from attn_cli.masks import MASKS
from attn_cli.masks.expression import parse
from attn_cli.paste import TARGETS, write_code
from attn_cli.paste.sheet import Sheet
from attn_cli.workflows.library import run
from attn_cli.workflows.mask_loading import MaskFiles

HEADS, WIDTH = 2, 4
Array = NDArray[np.bool_]

# expression → (batch, queries, keys, position of query 0)
CASES: dict[str, tuple[int, int, int, int]] = {
    "none": (1, 6, 6, 0),
    "causal": (1, 6, 6, 0),
    "causal ": (1, 5, 8, 3),
    " causal": (1, 5, 8, 0),
    "causal  ": (1, 8, 5, -3),
    "window(3)": (1, 7, 7, 0),
    "window(3, both)": (1, 5, 9, 4),
    "dilated(3, 2)": (1, 9, 9, 0),
    "dilated(2, 3)": (1, 9, 6, -3),
    "sink(2)": (1, 5, 7, 2),
    "prefix(3)": (1, 6, 6, 0),
    "global(0, 5)": (1, 7, 7, 0),
    "global(0, 1, 2, 4, 7)": (1, 6, 9, 3),
    "global(0, 1, 2, 3, 4)": (1, 9, 6, -3),
    "block(3)": (1, 7, 8, 0),
    "block(2) ": (1, 7, 4, -3),
    "documents(3, 2, 4)": (1, 9, 9, 0),
    "documents(3, 2)": (1, 9, 5, -3),
    "documents(2, 3) ": (1, 9, 5, 0),
    "documents(3, 4)": (1, 5, 7, 2),
    "padding(4)": (1, 6, 6, 0),
    "padding(3, 6, 0)": (3, 5, 6, 0),
    "random(2, seed=3)": (1, 9, 8, 0),
    "random(2)": (1, 9, 6, -3),
    "random(7, seed=18446744073709551615)": (1, 8, 8, 0),
    "random(5, seed=9)": (1, 8, 16, 8),
    "random(0)": (1, 4, 4, 0),
    "random(4)": (1, 4, 4, 0),
    'file("two.npy")': (1, 5, 6, 0),
    'file("three.npz")': (2, 5, 6, 0),
    'file("four.safetensors")': (2, 5, 6, 0),
    'file("four.pt")': (2, 5, 6, 0),
    'file("keys.npy")': (1, 5, 6, 0),
    'file("two.json")': (1, 5, 6, 0),
    'file("named.json") | causal': (1, 5, 6, 1),
    "causal & (window(3) | sink(1))": (1, 8, 8, 0),
    "causal & padding(3, 5)": (2, 6, 6, 0),
    "~(prefix(2) & ~block(2)) | causal & documents(3, 5)": (1, 8, 8, 0),
    "padding(3, 5) & (causal | padding(5, 3)) & ~random(1, seed=2)": (2, 6, 6, 0),
    "padding(2, 3) | ~padding(3, 2) & sink(4)": (2, 5, 5, 0),
    "window(3, both) | global(0) | random(2, seed=0)": (1, 12, 12, 0),
    "random(2, seed=1) | random(2, seed=2) | random(3, seed=1) & random(6, seed=4)": (1, 12, 12, 0),
    'causal & file("four.pt") & padding(4, 6)': (2, 5, 6, 1),
    "~causal & ~window(3) & sink(3)": (1, 6, 6, 0),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the cases name."""
    from safetensors.numpy import save_file

    folder = tmp_path_factory.mktemp("masks")
    drawn = np.random.default_rng(5).random((2, HEADS, 5, 6)) < 0.6
    np.save(folder / "two.npy", drawn[0, 0].astype(np.float32))
    np.save(folder / "keys.npy", drawn[0, 0, :1])
    np.savez(folder / "three.npz", mask=drawn[:, 0].astype(">i4"), other=np.zeros(3))
    save_file({"m": drawn.astype(np.uint8)}, folder / "four.safetensors")
    torch.save(torch.tensor(drawn), folder / "four.pt")
    rows = drawn[0, 1].tolist()
    (folder / "two.json").write_text(json.dumps(drawn[0, 1].astype(int).tolist()))
    (folder / "named.json").write_text("\ufeff" + json.dumps({"note": ["a"], "mask": rows}))
    return folder


@pytest.fixture(params=list(CASES), ids=lambda text: f"{text.strip()} {CASES[text]}")
def sheet(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sheet:
    monkeypatch.chdir(folder)
    batch, queries, keys, offset = CASES[request.param]
    heads = HEADS if "four" in request.param else 1
    files = MaskFiles()
    context = MaskContext(batch, heads, queries, keys, offset, load=files.load)
    return Sheet(parse(request.param), context, "lower-right", loading=files.code)


def expected(sheet: Sheet) -> Array:
    """The mask by attn's own evaluation, (B, HEADS, L, S)."""
    context = sheet.context
    rows = range(context.q_offset, context.q_offset + context.queries)
    seen = evaluate(
        sheet.expression.build(context),
        batch=context.batch,
        heads=context.heads,
        queries=rows,
        keys=range(context.keys),
    )
    return np.broadcast_to(seen, (context.batch, HEADS, context.queries, context.keys))


def pasted(sheet: Sheet, target: str, **names: Any) -> dict[str, Any]:
    """Runs the code and returns its names."""
    scope = dict(names)
    exec(compile(write_code(sheet, [target])[target], target, "exec"), scope)
    return scope


def qkv(sheet: Sheet, heads: int = HEADS, width: int = WIDTH) -> tuple[torch.Tensor, ...]:
    context = sheet.context
    generator = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(context.batch, heads, length, width, generator=generator, dtype=torch.float64)
        for length in (context.queries, context.keys, context.keys)
    )


def numpy_weights(sheet: Sheet) -> NDArray[np.float64]:
    """The weights by the numpy engine."""
    query, key, value = (tensor.numpy() for tensor in qkv(sheet))
    trace = run({"q": query, "k": key, "v": value, "mask": expected(sheet)})
    return np.asarray(trace["weights"])


def numpy_context(sheet: Sheet) -> NDArray[np.float64]:
    return np.asarray(numpy_weights(sheet) @ qkv(sheet)[2].numpy())


def test_sdpa(sheet: Sheet) -> None:
    query, key, value = qkv(sheet)
    scope = pasted(sheet, "sdpa", query=query, key=key, value=value)
    if "mask" in scope:
        full = np.broadcast_to(scope["mask"].numpy(), expected(sheet).shape)
        np.testing.assert_array_equal(full, expected(sheet))
    np.testing.assert_allclose(scope["output"].numpy(), numpy_context(sheet), rtol=0, atol=1e-12)


def test_flex(sheet: Sheet) -> None:
    scope = pasted(sheet, "flex", query=qkv(sheet)[0])
    context = sheet.context
    made = create_mask(
        scope["mask_mod"], context.batch, HEADS, context.queries, context.keys, device="cpu"
    )
    np.testing.assert_array_equal(made.numpy(), expected(sheet))
    assert scope["block_mask"].shape[-2:] == (context.queries, context.keys)


def test_hf(sheet: Sheet) -> None:
    model = SimpleNamespace(dtype=torch.float32, device=torch.device("cpu"))
    added = pasted(sheet, "hf", model=model)["attention_mask"]
    context = sheet.context
    assert added.shape == (context.batch, context.heads, context.queries, context.keys)
    assert added.dtype == torch.float32
    seen = np.broadcast_to((added == 0).numpy(), expected(sheet).shape)
    np.testing.assert_array_equal(seen, expected(sheet))
    assert set(added.unique().tolist()) <= {0.0, torch.finfo(torch.float32).min}
    query, key, _ = (tensor.float() for tensor in qkv(sheet))
    weights = torch.softmax(query @ key.mT / WIDTH**0.5 + added, -1).numpy()
    rows = expected(sheet).any(-1)  # where a row sees nothing this mask makes it uniform
    np.testing.assert_allclose(weights[rows], numpy_weights(sheet)[rows], rtol=0, atol=1e-6)
    np.testing.assert_allclose(weights[~rows], 1 / context.keys, rtol=0, atol=1e-6)


def test_mha(sheet: Sheet) -> None:
    context = sheet.context
    embed = HEADS * WIDTH
    torch.manual_seed(0)
    mha = torch.nn.MultiheadAttention(embed, HEADS, batch_first=True, dtype=torch.float64).eval()
    query = torch.randn(context.batch, context.queries, embed, dtype=torch.float64)
    key = torch.randn(context.batch, context.keys, embed, dtype=torch.float64)
    scope = pasted(sheet, "mha", mha=mha, query=query, key=key, value=key)
    hidden = np.zeros((context.batch, HEADS, context.queries, context.keys), np.bool_)
    if "key_padding_mask" in scope:
        assert scope["key_padding_mask"].shape == (context.batch, context.keys)
        hidden |= scope["key_padding_mask"].numpy()[:, None, None]
    if "attn_mask" in scope:
        hidden |= scope["attn_mask"].numpy().reshape(-1, *_heads(scope["attn_mask"], context))
    np.testing.assert_array_equal(~hidden, expected(sheet))
    rows = np.logical_and.reduce(expected(sheet).any(-1), axis=1)
    weights = scope["weights"].detach().numpy()  # mean over the heads
    projected = [
        F.linear(x, mha.in_proj_weight[at : at + embed], mha.in_proj_bias[at : at + embed])
        for x, at in ((query, 0), (key, embed))
    ]
    split = [x.reshape(*x.shape[:2], HEADS, WIDTH).transpose(1, 2) for x in projected]
    q, k = (x.detach().numpy() for x in split)
    trace = run({"q": q, "k": k, "v": k, "mask": expected(sheet)})
    right = np.asarray(trace["weights"]).mean(1)
    np.testing.assert_allclose(weights[rows], right[rows], rtol=0, atol=1e-12)
    assert np.isnan(weights[~rows]).all()


def _heads(mask: torch.Tensor, context: MaskContext) -> tuple[int, int, int]:
    """(heads, L, S) of an attn_mask of (L, S) or (B·heads, L, S)."""
    if mask.ndim == 2:
        return (1, context.queries, context.keys)
    assert mask.shape[0] == context.batch * HEADS
    return (HEADS, context.queries, context.keys)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_gives_empty_rows_zeros_as_its_comment_says() -> None:
    context = MaskContext(1, 1, 4, 6, 2)
    sheet = Sheet(parse("causal & ~sink(4)"), context, empty="queries 0–1 see no key")
    query, key, value = (tensor.float() for tensor in qkv(sheet))
    scope = pasted(sheet, "flex", query=query)
    assert (
        "# queries 0–1 see no key: flex_attention returns 0 there"
        in write_code(sheet, ["flex"])["flex"]
    )
    output = scope["flex_attention"](query, key, value, block_mask=scope["block_mask"])
    np.testing.assert_allclose(output.numpy(), numpy_context(sheet), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(output.numpy()[:, :, :2], 0)


def test_what_is_said_of_empty_rows_stands_in_a_comment() -> None:
    sheet = Sheet(parse("causal & ~sink(1)"), MaskContext(1, 1, 4, 4), empty="query 0 sees no key")
    for code in write_code(sheet, TARGETS).values():
        assert "# query 0 sees no key: " in code


def test_every_mask_is_pasted() -> None:
    used = {name for text in CASES for name in parse(text).names_used()}
    assert used == set(MASKS)
    assert set(TARGETS) == {"sdpa", "mha", "flex", "hf"}
