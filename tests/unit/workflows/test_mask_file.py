"""attn mask FILE: somebody's mask is recognised, and pasted code gives what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core.results_mask import MaskResult
from attn_cli.errors import AttnError, InputError
from attn_cli.workflows.mask import mask, names_file
from attn_cli.workflows.mask_options import MaskOptions


def look(text: str, **options: Any) -> MaskResult:
    return mask(text, MaskOptions(**options))


def codes(result: MaskResult) -> list[str]:
    return [finding.code for finding in result.findings]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(array: Any, name: str = "m.npy") -> str:
    np.save(name, array)
    return name


CAUSAL = np.tril(np.ones((6, 6), np.bool_))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("causal", False),
        ("m.npy", True),
        ("folder/m.NPZ", True),
        ("-", True),
        ("/dev/stdin", True),
        ('file("m.npy")', False),
        ("causal & m.npy", False),
        ("window(3)", False),
        ("m.bin", False),
    ],
)
def test_what_is_a_file_and_what_an_expression(here: Path, text: str, expected: bool) -> None:
    assert names_file(text) is expected


def test_a_file_that_is_there_is_a_file_whatever_its_name(here: Path) -> None:
    Path("a&b.npy").touch()
    Path("causal").touch()
    assert names_file("a&b.npy")
    assert not names_file("causal")


def test_a_known_mask_in_a_file(here: Path) -> None:
    result = look(save(CAUSAL))
    assert result.expression == "causal"
    assert result.file is not None
    assert [match.words for match in result.file.matches] == ["causal"]
    assert codes(result) == ["mask-kind"]
    assert result.visible == 21


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt", ".json"])
def test_every_format(here: Path, suffix: str) -> None:
    from safetensors.numpy import save_file

    path = f"m{suffix}"
    if suffix == ".npz":
        np.savez(path, mask=CAUSAL)
    elif suffix == ".safetensors":
        save_file({"mask": CAUSAL}, path)
    elif suffix == ".pt":
        torch.save({"mask": torch.tensor(CAUSAL)}, path)
    else:
        Path(path).write_text(json.dumps({"mask": CAUSAL.tolist()}))
    result = look(path)
    assert result.expression == "causal"
    assert result.file is not None
    assert result.file.name == "mask"


def test_a_batch_that_differs_by_padding_is_one_mask(here: Path) -> None:
    lengths = np.array([3, 6, 5])[:, None, None, None]
    result = look(save(np.where(CAUSAL & (np.arange(6) < lengths), 0.0, -np.inf)))
    assert result.expression == "causal & padding(3, 6, 5)"
    assert len(result.items) == 3


def test_key_padding_is_recognised_by_its_name(here: Path) -> None:
    np.savez("m.npz", key_padding_mask=np.arange(6) >= np.array([[2], [6]]))
    result = look("m.npz")
    assert result.expression == "padding(2, 6)"
    assert (result.batch, result.queries, result.keys) == (2, 1, 6)


def test_key_padding_without_a_name_is_a_possibility(here: Path) -> None:
    result = look(save(np.arange(6) < np.array([[2], [6], [3]])))
    assert result.expression is None
    assert [f.message for f in result.findings if f.code == "known-mask"] == [
        "this is padding(2, 6, 3) if its axes are (batch, key)"
    ]


def test_heads_that_differ_are_told_apart(here: Path) -> None:
    both = np.stack([CAUSAL, np.tril(np.ones((6, 6), np.bool_), -1)])
    result = look(save(both[None]))
    assert result.file is not None
    assert [(m.where, m.words) for m in result.file.matches] == [
        ("item 0, head 0", "causal"),
        ("item 0, head 1", "causal, off by one: no query sees itself"),
    ]
    assert result.expression is None


def test_rows_of_finite_fills_are_not_called_empty(here: Path) -> None:
    fill = np.where(np.tril(np.ones((4, 4)), -1), 0, -1e9)
    result = look(save(fill))
    assert "finite-fill-row" in codes(result)
    assert "empty-row" not in codes(result)
    infinite = look(save(np.where(fill, -np.inf, 0), "n.npy"))
    assert "empty-row" in codes(infinite)
    assert "finite-fill-row" not in codes(infinite)


def test_nothing_is_said_where_nothing_matches(here: Path) -> None:
    result = look(save(np.random.default_rng(0).random((7, 9)) < 0.5))
    assert result.file is not None
    assert result.file.matches == ()
    assert codes(result) == ["mask-kind"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"queries": 7}, "-q is 7, and the mask has shape (6, 6)"),
        ({"keys": 5}, "-k is 5"),
        ({"align": "lower-right"}, "--align is for expressions"),
    ],
)
def test_options_of_expressions_do_not_apply(
    here: Path, options: dict[str, Any], message: str
) -> None:
    path = save(CAUSAL)
    assert look(path, queries=6, keys=6).visible == 21
    with pytest.raises(InputError) as caught:
        look(path, **options)
    assert message in caught.value.message


def test_a_missing_file(here: Path) -> None:
    save(CAUSAL)
    with pytest.raises(InputError) as caught:
        look("n.npy")
    assert "no such file" in caught.value.message


KEYS = np.arange(7)
STORED: dict[str, np.ndarray[Any, Any]] = {
    "known": np.tril(np.ones((7, 7), np.bool_)),
    "inverted": np.triu(np.ones((7, 7), np.bool_), 1),
    "off by one": np.tril(np.ones((7, 7), np.bool_), -1),
    "lower-right": np.tril(np.ones((4, 7), np.bool_), 3),
    "unknown": np.random.default_rng(1).random((5, 7)) < 0.6,
    "unknown batch": np.random.default_rng(2).random((2, 5, 7)) < 0.6,
    "unknown heads": np.random.default_rng(3).random((2, 3, 5, 7)) < 0.6,
    "keys": np.random.default_rng(4).random(7) < 0.6,
    "additive": np.where(np.random.default_rng(5).random((5, 7)) < 0.6, 0.5, -1e9),
    "infinite": np.where(np.random.default_rng(6).random((5, 7)) < 0.6, 0.0, -np.inf),
    "weak": np.where(np.random.default_rng(7).random((5, 7)) < 0.6, 0.0, -50.0),
    "0 and 1": (np.random.default_rng(8).random((5, 7)) < 0.6).astype(np.int32),
}


@pytest.mark.parametrize("name", STORED)
def test_pasted_code_of_a_file_gives_what_is_shown(here: Path, name: str) -> None:
    result = look(save(STORED[name]), targets=("sdpa", "hf"))
    shape = (result.batch, result.heads, result.queries, result.keys)
    query = torch.zeros(*shape[:3], 4)
    key = torch.zeros(*shape[:2], result.keys, 4)
    scope = run_code(result.code["sdpa"], query=query, key=key, value=key)
    model = SimpleNamespace(dtype=torch.float32, device="cpu")
    added = run_code(result.code["hf"], model=model)["attention_mask"]
    shown = np.array([[c == "#" for c in line] for item in result.items for line in item.picture])
    shown = shown.reshape(shape)
    shown = ~shown if name == "inverted" else shown
    np.testing.assert_array_equal(np.broadcast_to(added.numpy() == 0, shape), shown)
    if "mask" in scope:
        np.testing.assert_array_equal(np.broadcast_to(scope["mask"].numpy(), shape), shown)
    else:
        assert "is_causal=True" in result.code["sdpa"]


def test_pasted_code_of_a_named_padding_mask(here: Path) -> None:
    rng = np.random.default_rng(9)
    hidden = rng.random((3, 7)) < 0.5
    np.savez("m.npz", key_padding_mask=hidden)
    code = look("m.npz", targets=("sdpa",)).code["sdpa"]
    query, key = torch.zeros(3, 2, 4, 4), torch.zeros(3, 2, 7, 4)
    mask = run_code(code, query=query[:, :, :1], key=key, value=key)["mask"]
    np.testing.assert_array_equal(mask.numpy(), ~hidden[:, None, None])


def test_code_for_what_only_attn_reads_is_refused(here: Path) -> None:
    Path("m.csv").write_text("1,0\n1,1\n")
    assert look('file("m.csv")').visible == 3
    with pytest.raises(AttnError, match=r"cannot be loaded by a line of code"):
        look('file("m.csv")', targets=("sdpa",))


def run_code(code: str, **names: Any) -> dict[str, Any]:
    scope = dict(names)
    exec(code, scope)
    return scope


def test_hostile_paths_stay_in_their_comments_and_quotes(here: Path) -> None:
    path = "m\"\n'+exit()#\\.npy"
    code = look(save(STORED["unknown"], path), targets=("hf",)).code["hf"]
    added = run_code(code, model=SimpleNamespace(dtype=torch.float32, device="cpu"))
    np.testing.assert_array_equal(added["mask"].numpy(), STORED["unknown"])
