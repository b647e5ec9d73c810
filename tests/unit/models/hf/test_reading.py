"""What a model is given: texts, tokens, ids, pictures, drawings; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from attn_cli.errors import InputError
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.finding_tokenizer import tokenizer_of
from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.options import InputOptions
from attn_cli.models.hf.reading import read_inputs, read_tokens
from attn_cli.models.hf.source import Source
from tests.unit.models.hf.making import made

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "down"]


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedModel:
    """A tiny Llama with a tokenizer of eight words."""
    model = made(tmp_path, "llama")
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    kind: Any = PreTrainedTokenizerFast
    fast = kind(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
    fast.save_pretrained(tmp_path)
    tokenizer = tokenizer_of(Source(str(tmp_path), tmp_path), trust_remote_code=False)
    return replace(model, tokenizer=tokenizer)


def read(loaded: LoadedModel, **options: Any) -> ModelInputs:
    return read_inputs(loaded, InputOptions(**options))


def test_texts_are_padded_and_labelled(loaded: LoadedModel) -> None:
    inputs = read(loaded, texts=("the cat sat", "the dog"))
    assert inputs.tensors["input_ids"].tolist() == [[4, 5, 6], [4, 1, 0]]
    assert inputs.tensors["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert inputs.tokens == (("the", "cat", "sat"), ("the", "dog", "[PAD]"))
    assert inputs.lengths == (3, 2)


def test_text_and_tokens_out_of_files(loaded: LoadedModel, tmp_path: Path) -> None:
    text, tokens = tmp_path / "a.txt", tmp_path / "a.json"
    text.write_text("the cat\nsat")
    tokens.write_text(json.dumps(["the", "cat", "sat"]))
    by_text, by_tokens = read(loaded, text_file=str(text)), read(loaded, tokens_file=str(tokens))
    assert by_text.tensors["input_ids"].tolist() == [[4, 5, 6]]
    assert by_tokens.tensors["input_ids"].tolist() == [[4, 5, 6]]
    assert by_tokens.tokens == (("the", "cat", "sat"),)


def test_ids_need_no_tokenizer(loaded: LoadedModel) -> None:
    bare = replace(loaded, tokenizer=None)
    assert read(bare, input_ids=((4, 5), (6,))).tokens == (("#4", "#5"), ("#6", "#0"))


def test_labels_of_a_call(loaded: LoadedModel) -> None:
    inputs = read(loaded, texts=("the cat sat",))
    facts = capture(loaded, inputs).coverage.calls[0]
    assert inputs.labels_of(facts) == (inputs.tokens, inputs.tokens)
    later = replace(facts, queries=1, q_offset=2)
    assert inputs.labels_of(later) == ((("sat",),), inputs.tokens)


def test_the_decoder_of_a_pair(tmp_path: Path) -> None:
    pair = made(tmp_path, "t5")
    inputs = read(pair, input_ids=((4, 5, 6),), decoder_ids=((0, 7),))
    calls = capture(pair, inputs).coverage.calls
    cross = next(call for call in calls if call.cross)
    assert inputs.labels_of(cross) == ((("#0", "#7"),), (("#4", "#5", "#6"),))
    started = read(pair, input_ids=((4, 5, 6),))
    assert started.tensors["decoder_input_ids"].tolist() == [[0]]


def test_padding_on_the_left(loaded: LoadedModel) -> None:
    inputs = inputs_of_ids(loaded, [[4, 5, 6], [7]], side="left")
    assert inputs.tensors["input_ids"].tolist() == [[4, 5, 6], [0, 0, 7]]
    assert inputs.tokens[1] == ("[PAD]", "[PAD]", "down")
    assert inputs.only(1).tensors["input_ids"].tolist() == [[0, 0, 7]]


def test_pixels_out_of_a_file(tmp_path: Path) -> None:
    model = made(tmp_path, "vit")
    pixels = np.random.default_rng(0).normal(size=(3, 16, 16)).astype(np.float32)
    np.save(tmp_path / "a.npy", pixels)
    inputs = read(model, image=str(tmp_path / "a.npy"))
    torch.testing.assert_close(inputs.tensors["pixel_values"][0], torch.from_numpy(pixels))
    facts = capture(model, inputs).coverage.calls[0]
    assert facts.queries == 5  # four patches and the class token
    np.save(tmp_path / "b.npy", pixels[:1])
    with pytest.raises(InputError, match="1 channels on its first axis and the model takes 3"):
        read(model, image=str(tmp_path / "b.npy"))


def test_pixels_that_are_none(tmp_path: Path) -> None:
    """An archive, a header that claims too much, one that is damaged, numbers beyond float32."""
    model, file = made(tmp_path / "model", "vit"), tmp_path / "a.npy"
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 16, 16)))
    start = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, "
    for content, words in (
        ((tmp_path / "a.npz").read_bytes(), "does not begin like an .npy file"),
        ((start + b"900000000000, 9)}").ljust(127) + b"\n", "the header claims"),
        ((start + b"(" * 9).ljust(127) + b"\n", "its header is damaged"),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=words):
            read(model, image=str(file))
    np.save(file, np.full((3, 16, 16), 1e300))
    with pytest.raises(InputError, match="holds a number that is not finite in float32"):
        read(model, image=str(file))


def test_a_picture_beside_a_text(tmp_path: Path) -> None:
    model = made(tmp_path, "llava")
    np.save(tmp_path / "a.npy", np.zeros((3, 16, 16), np.float32))
    inputs = read(model, image=str(tmp_path / "a.npy"), input_ids=((4, 5),))
    assert inputs.tokens == (("image 0", "image 1", "image 2", "image 3", "#4", "#5"),)
    assert capture(model, inputs).coverage.calls[-1].queries == 6


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "the model has no input"),
    ({"texts": ("the",), "input_ids": ((4,),)}, "--text and --input-ids say the same"),
    ({"image": "a.png"}, "reads no pictures"),
    ({"texts": ("the " * 65,)}, "65 tokens and the model 64 positions"),
    ({"texts": ("",)}, "the text has no token"),
    ({"input_ids": ((40,),)}, "the id 40: the vocabulary has 40"),
    ({"text_file": "nowhere.txt"}, "nowhere.txt: no such file"),
    ({"tokens_file": "nowhere.json"}, "nowhere.json: no such file"),
    ({"texts": ("the",), "decoder_texts": ("cat",)}, "has no decoder of its own"),
    ({"drawn": 0}, "cannot draw 0 tokens"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_refused(options: dict[str, Any], said: str, loaded: LoadedModel) -> None:
    with pytest.raises(InputError) as caught:
        read(loaded, **options)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_no_tokenizer(loaded: LoadedModel) -> None:
    with pytest.raises(InputError, match="there is no tokenizer"):
        read(replace(loaded, tokenizer=None), texts=("the",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not valid JSON"),
        ("[]", "expected a list of tokens"),
        ("[1]", "expected a list of tokens"),
        ('[["a"], []]', "expected a list of tokens"),
        ('["dog"]', "the vocabulary has no token 'dog'"),
    ],
)
def test_tokens_that_are_none(content: str, said: str, loaded: LoadedModel, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        read(loaded, tokens_file=str(path))


def test_rows_of_tokens(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('[["a"], ["b", "c"]]')
    assert read_tokens(str(path)) == [["a"], ["b", "c"]]


def test_a_vocabulary_alone(tmp_path: Path) -> None:
    """Longest entries first where there are no rules; WordPiece where there are ## pieces."""
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS[:4], "C", "Cl", "(", ")", ">>", "[O-]"]))
    tokenizer = tokenizer_of(Source(str(tmp_path), tmp_path), trust_remote_code=False)
    assert tokenizer is not None
    encoded = tokenizer.encode("C(Cl)>>[O-]x")
    assert encoded.labels == ("[CLS]", "C", "(", "Cl", ")", ">>", "[O-]", "x", "[SEP]")
    assert encoded.ids == (2, 4, 6, 5, 7, 8, 9, 1, 3)
    assert "longest entries" in tokenizer.notes[0].message
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS[:4], "[MASK]", "do", "##wn"]))
    pieces = tokenizer_of(Source(str(tmp_path), tmp_path), trust_remote_code=False)
    assert pieces is not None
    assert pieces.encode("down").ids == (2, 5, 6, 3)


def test_a_line_of_a_vocabulary_ends_with_a_newline_alone(tmp_path: Path) -> None:
    """U+2028 and U+0085 end lines elsewhere; here they are entries, which the ids behind count."""
    (tmp_path / "tokenizer_config.json").write_text("{}")
    content = "\r\n".join([*WORDS[:4], "a\u2028", "\x85", "b"])
    (tmp_path / "vocab.txt").write_bytes(content.encode())
    tokenizer = tokenizer_of(Source(str(tmp_path), tmp_path), trust_remote_code=False)
    assert tokenizer is not None
    assert tokenizer.id_of("b") == 6


def test_a_tokenizer_that_is_damaged(tmp_path: Path) -> None:
    """Said where a text is to be cut; ids go without."""
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    for content in ("{", "[]", '{"version": "1.0"}'):
        (tmp_path / "tokenizer.json").write_text(content)
        made = tokenizer_of(Source(str(tmp_path), tmp_path), trust_remote_code=False)
        assert made is not None
        assert made.label(7) == "#7"
        assert "tokens go by their ids: its tokenizer cannot be read" in made.notes[0].message
        with pytest.raises(InputError, match="its tokenizer cannot be read") as caught:
            made.encode("x")
        assert "\n" not in caught.value.message
