"""What is worked out from names, documentation and source; and what is not guessed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.infer.documents import about_mask, layouts, mask_axes, mask_meaning
from attn_cli.diagnosis.infer.names import (
    CONSTRUCTOR,
    FORWARD,
    PROJECTIONS,
    looks_like_mask,
    mask_means,
    word,
)
from attn_cli.diagnosis.plan_json import Said
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.subject import Adapted
from attn_cli.errors import InputError


def code(folder: Path, text: str, said: Said = Said(), name: str = "f") -> Adapted:
    """The code of `text` in a file of its own."""
    file = folder / "their_code.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return adapt(f"{file}:{name}", said, session=LocalSession())


@pytest.mark.parametrize(
    "name, means",
    [
        ("key_padding_mask", "hidden"),
        ("src_key_padding_mask", "hidden"),
        ("attention_mask", "keep"),
        ("valid", "keep"),
        ("keep_mask", "keep"),
        ("is_pad", "hidden"),
        ("hidden", "hidden"),
        ("blocked", "hidden"),
        ("mask", None),
        ("attn_mask", None),
        ("padding_mask", None),
        ("M", None),
    ],
)
def test_a_mask_says_what_it_means_by_its_name_or_does_not(name: str, means: str | None) -> None:
    assert looks_like_mask(name)
    assert mask_means(name) == means


@pytest.mark.parametrize("name", ["dropout", "drop_prob", "scale", "x", "heads", "temperature"])
def test_other_names_are_no_masks(name: str) -> None:
    assert not looks_like_mask(name)


@pytest.mark.parametrize(
    "text, means, axes",
    [
        ("mask: bool (T, T), True = visible", "keep", "LS"),
        ("mask: (B, T) with 1 for words and 0 for <pad>.", "keep", "BS"),
        ("mask: (B, T), True where padding", "hidden", "BS"),
        ("mask: True where a key must not be used", "hidden", None),
        ("mask (batch, 1, tokens, tokens): 0 or -inf, added to the scores", "additive", "B1LS"),
        ("mask: 0 = hidden", "keep", None),
        ("mask: the usual one", None, None),
        ("mask: True is good", None, None),
    ],
)
def test_documentation_says_what_a_mask_is(text: str, means: str | None, axes: str | None) -> None:
    said = about_mask(f"Attention.\n{text}\nMore.", "mask")
    assert mask_meaning(said) == means
    assert mask_axes(said) == axes


@pytest.mark.parametrize(
    "text, stated",
    [
        ("q: (batch, heads, tokens, head_dim)", ("BHLD",)),
        ("x is (seq, batch, features)", ("LBD",)),
        ("q, k, v: (..., T, D)", ("*",)),
        ("(B, H, T, T) weights of (N, L, E) tokens", ("BLD",)),
        ("x: (B, C, H, W)", ("BCHW",)),
        ("nothing (of use) here", ()),
    ],
)
def test_documentation_says_how_the_arrays_lie(text: str, stated: tuple[str, ...]) -> None:
    assert layouts(text) == stated


def test_words_are_known_in_their_spellings() -> None:
    assert [word(n, CONSTRUCTOR) for n in ("n_embd", "numHeads", "num_kv_heads", "zap")] == [
        "dim",
        "heads",
        "kv_heads",
        None,
    ]
    assert [word(n, FORWARD) for n in ("Q", "hidden_states", "memory", "past")] == [
        "q",
        "x",
        "context",
        "cache",
    ]
    assert [word(n, PROJECTIONS) for n in ("W_Q", "to_kv", "c_attn", "out_proj")] == [
        "q",
        "kv",
        "qkv",
        "o",
    ]


def test_code_for_one_rank_is_asked_in_it_alone(tmp_path: Path) -> None:
    """axis=1 is the keys of (L, S) and the queries of (B, L, S): more axes would accuse it."""
    text = """
        import numpy as np

        def f(q, k, v):
            s = np.einsum("...id,...jd->...ij", q, k) / np.sqrt(q.shape[-1])
            e = np.exp(s)
            return e / e.sum(axis=1, keepdims=True) @ v
    """
    assert code(tmp_path, text).plan.call.layouts == ("LD",)


def test_a_layout_that_is_documented_is_kept_although_the_code_fails_in_it(tmp_path: Path) -> None:
    text = """
        import numpy as np

        def f(q, k, v):
            '''q, k, v: (batch, tokens, dim)'''
            e = np.exp(q @ k.T / q.shape[-1] ** 0.5)
            return e / e.sum(-1, keepdims=True) @ v
    """
    adapted = code(tmp_path, text)
    assert adapted.plan.call.layouts == ("BLD",)
    assert "sizes-raise" in [finding.code for finding in adapted.findings]


@pytest.mark.parametrize(
    "body, causal",
    [
        ("s = np.where(np.tri(len(q), len(k)), s, -np.inf)", True),
        ("causal = True", True),
        ("pass  # not causal", False),
        ("pass  # a causal mask comes from outside", False),
    ],
)
def test_code_is_causal_where_it_says_so(tmp_path: Path, body: str, causal: bool) -> None:
    text = f"""
        import numpy as np

        def f(q, k, v):
            s = q @ k.T / q.shape[1] ** 0.5
            {body}
            e = np.exp(s - s.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True) @ v
    """
    assert code(tmp_path, text).plan.intent.causal is causal


def test_what_is_said_goes_before_what_is_found(tmp_path: Path) -> None:
    text = """
        import numpy as np

        def f(q, k, v, causal=True):
            return q @ k.T @ v
    """
    plan = code(tmp_path, text, say(masks=["none"], layout="ld", scale="none")).plan
    assert (plan.intent.causal, plan.intent.scale, plan.call.layouts) == (False, 1.0, ("LD",))


def test_a_bool_mask_that_raises_is_kept_where_the_mask_is_said_to_be_bool(tmp_path: Path) -> None:
    text = """
        import numpy as np

        def f(q, k, v, keep=None):
            {}
            s = q @ k.T / q.shape[1] ** 0.5
            if keep is not None:
                s = s + (keep - 1) * 1e9
            e = np.exp(s - s.max(1, keepdims=True))
            return e / e.sum(1, keepdims=True) @ v
    """
    dtypes: dict[str, Any] = {}
    for said in ("'''keep: 1 stays'''", "'''keep: bool, True stays'''"):
        text_said = text.format(said).replace("keep - 1", "np.subtract(keep, True)")
        adapted = code(tmp_path, text_said)
        assert adapted.plan.call.mask is not None
        dtypes[said] = adapted.plan.call.mask.dtype
        assert "mask-bool-raises" in [finding.code for finding in adapted.findings]
    assert list(dtypes.values()) == ["int", "bool"]


def test_a_plan_says_what_was_chosen_for_want_of_a_word(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        class f(nn.Module):
            def __init__(self, width, n_head):
                super().__init__()
                self.n_head = n_head
                self.qkv = nn.Linear(width, 3 * width)

            def forward(self, x):
                q, k, v = self.qkv(x).unflatten(-1, (3, self.n_head, -1)).permute(2, 0, 3, 1, 4)
                return (torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).flatten(2)
    """
    adapted = code(tmp_path, text)
    assert adapted.plan.call.init is not None
    assert adapted.plan.call.init.kwargs == {"width": 32, "n_head": 4}
    messages = {finding.code: finding.message for finding in adapted.findings}
    assert messages["plan-init"] == "built with width=32, n_head=4, for nothing was said"


def test_layers_of_pytorch_itself_are_known() -> None:
    target = "torch.nn:MultiheadAttention"
    said = say(init="24, 3, batch_first=True")
    call = adapt(target, said, session=LocalSession()).plan.call
    assert call.layouts == ("BLD",)
    assert call.returns == ("out", "weights_mean")
    assert call.mask is not None
    assert (call.mask.arg, call.mask.kind) == ("key_padding_mask", "drop_pad")


def test_a_mask_of_tokens_that_is_added_is_asked_for(tmp_path: Path) -> None:
    """transformers gives its layers what is added, under the name of what is 1 for a token."""
    text = """
        import torch
        from torch import nn

        class f(nn.Module):
            def __init__(self, dim=24, heads=3):
                super().__init__()
                self.heads = heads
                self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))

            def forward(self, hidden_states, attention_mask=None):
                layers = (self.query, self.key, self.value)
                q, k, v = (
                    layer(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                    for layer in layers
                )
                s = q @ k.mT / q.shape[-1] ** 0.5
                if attention_mask is not None:
                    s = s + attention_mask
                return ((s.softmax(-1) @ v).transpose(1, 2).flatten(2),)
    """
    with pytest.raises(InputError, match="attention_mask is added to the scores as it is"):
        code(tmp_path, text)
    mask = code(tmp_path, text, say(mask_means="additive")).plan.call.mask
    assert mask is not None
    assert mask.kind == "additive_pad_b11"


def test_one_shared_key_and_value_head_is_seen_by_its_width(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        class f(nn.Module):
            def __init__(self, dim=24, n_heads=3):
                super().__init__()
                self.n_heads = n_heads
                self.wq, self.wo = nn.Linear(dim, dim), nn.Linear(dim, dim)
                self.wkv = nn.Linear(dim, 2 * dim // n_heads)

            def forward(self, x):
                q = self.wq(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                k, v = self.wkv(x)[:, None].chunk(2, -1)
                p = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
                return self.wo((p @ v).transpose(1, 2).flatten(2))
    """
    intent = code(tmp_path, text).plan.intent
    assert (intent.heads, intent.kv_heads) == (3, 1)


def test_a_normalisation_inside_is_a_warning(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        class f(nn.Module):
            def __init__(self, dim=24):
                super().__init__()
                self.norm, self.qkv = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim)

            def forward(self, x):
                q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
                return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    """
    severities = {finding.code: finding.severity for finding in code(tmp_path, text).findings}
    assert severities["norm-left"] == "warning"
