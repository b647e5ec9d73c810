"""What a checkpoint's own processor makes is what the model is given, with a label a position."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer

from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.options import InputOptions
from attn_cli.models.hf.processors import own_processor, processing
from attn_cli.models.hf.reading import read_inputs
from tests.unit.models.hf.picture_models import KINDS, picture, picture_model, same

PROCESSORS: Any = AutoProcessor
PICTURES: Any = AutoImageProcessor
VIDEO = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava_onevision", "internvl")
WRITTEN = {
    "llava": "<image>\nthe cat",
    "llava_next": "<image>the cat",
    "idefics3": "<image>the cat",
    "paligemma": "<image>the cat",
    "gemma3": "<boi>the cat",
    "mllama": "<|image|>the cat",
    "blip-2": "the cat",
    "clip": "the cat",
    "vilt": "the cat",
}
PARTS = {  # positions of the 20 × 30 picture in the text, by the rules of each family
    "qwen2_vl": 2,  # resized to 16 × 32: 2 × 4 patches, 2 × 2 of them to a position
    "qwen2_5_vl": 2,
    "qwen3_vl": 2,
    "llava": 4,
    "llava_next": 14,  # 4 of the whole, 8 of its tiles, and one at the end of each of 2 rows
    "llava_onevision": 14,
    "idefics3": 5,  # 2 × 2 tiles and the whole
    "paligemma": 4,
    "gemma3": 4,
    "internvl": 5,  # 2 × 2 tiles and the whole
    "blip-2": 4,
}


Made = Callable[[str], tuple[LoadedModel, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A family's model, made once, and a picture beside it."""
    known: dict[str, tuple[LoadedModel, str]] = {}

    def one(name: str) -> tuple[LoadedModel, str]:
        if name not in known:
            root = tmp_path_factory.mktemp(name)
            known[name] = picture_model(root, name), picture(root)
        return known[name]

    return one


def read(loaded: LoadedModel, image: str, *texts: str, **more: Any) -> ModelInputs:
    return read_inputs(loaded, InputOptions(texts=texts, image=image, **more))


@pytest.mark.parametrize("name", WRITTEN)
def test_the_model_is_given_what_its_processor_makes(name: str, made: Made) -> None:
    loaded, file = made(name)
    inputs = read(loaded, file, "the cat")
    with Image.open(file) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, at how PaliGemma's makes its labels
        processor = PROCESSORS.from_pretrained(loaded.source)
        right = processor(text=WRITTEN[name], images=opened.convert("RGB"), return_tensors="pt")
    same(
        inputs.tensors, {key: right[key] for key in right if loaded.takes(key) and key != "labels"}
    )
    assert bool(inputs.notes) == (name not in ("paligemma", "blip-2", "clip", "vilt"))


@pytest.mark.parametrize("name", VIDEO)
def test_a_processor_of_videos_needs_none(name: str, made: Made) -> None:
    """Its parts, asked alone, make the same pixels; torchvision may be there or not."""
    loaded, file = made(name)
    inputs = read(loaded, file, "the cat")
    with Image.open(file) as opened:
        images = PICTURES.from_pretrained(loaded.source)
        right = images(images=opened.convert("RGB"), return_tensors="pt")
    pixels = {key: right[key] for key in right if loaded.takes(key)}
    same({key: inputs.tensors[key] for key in pixels}, pixels)
    words: Any = AutoTokenizer.from_pretrained(loaded.source)
    assert inputs.tensors["input_ids"][0, -2:].tolist() == words("the cat")["input_ids"]


@pytest.mark.parametrize("name", KINDS)
def test_the_output_stays_and_labels_are_of_the_text(name: str, made: Made) -> None:
    loaded, file = made(name)
    inputs = read(loaded, file, "the cat")
    seen = capture(loaded, inputs)
    assert seen.check is not None
    assert seen.check.verdict == "identical"
    labels = [each for each in inputs.tokens[0] if each.startswith("image ")]
    assert labels == [f"image {number}" for number in range(PARTS.get(name, 0))]
    assert inputs.tokens[0][-2:] == ("the", "cat")
    for facts in seen.coverage.calls:
        in_text = not any(word in str(facts.place) for word in ("vis", "qformer"))
        joint = name == "vilt"  # its patches stand behind the text, without names
        queries, keys = inputs.labels_of(facts)
        assert queries == (inputs.tokens if in_text and not joint else None)
        crossed = name == "mllama" and facts.cross
        assert keys == (inputs.tokens if in_text and not joint and not crossed else None)


def test_a_tower_as_long_as_the_text_has_no_labels_of_it(made: Made) -> None:
    loaded, file = made("qwen2_vl")
    inputs = read(loaded, file, "the cat sat down")
    tower = capture(loaded, inputs, verify=False).coverage.calls[0]
    assert (tower.queries, len(inputs.tokens[0])) == (8, 8)
    assert inputs.labels_of(tower) == (None, None)


def test_the_token_of_a_picture_stands_where_the_text_has_it(made: Made) -> None:
    loaded, file = made("qwen2_vl")
    inputs = read(loaded, file, "the <|image_pad|> cat")
    assert inputs.tokens == (("the", "image 0", "image 1", "cat"),)
    assert not inputs.notes
    put = read(loaded, file, "the cat")
    assert put.tokens == (
        ("<|vision_start|>", "image 0", "image 1", "<|vision_end|>", "the", "cat"),
    )
    (said,) = put.notes
    assert "'<|vision_start|><|image_pad|><|vision_end|>' was put in front of it" in said.message


def test_one_item_of_pieces_stays_whole(made: Made) -> None:
    """Eight patches are one picture: an item alone has all of them."""
    loaded, file = made("qwen2_vl")
    inputs = read(loaded, file, "the cat")
    assert inputs.batch == 1
    assert inputs.only(0).tensors["pixel_values"].shape == (8, 3 * 2 * 8 * 8)


def test_several_texts_beside_a_picture_of_two_towers(made: Made) -> None:
    loaded, file = made("clip")
    inputs = read(loaded, file, "the cat", "the cat sat")
    assert inputs.tokens == (("the", "cat", "<pad>"), ("the", "cat", "sat"))
    assert inputs.lengths == (2, 3)
    assert inputs.only(1).tensors["pixel_values"].shape == (1, 3, 16, 16)
    assert inputs.only(1).tensors["input_ids"].shape == (1, 3)


def test_ids_beside_pixels_of_one_size(made: Made) -> None:
    loaded, file = made("llava")
    inputs = read(loaded, file, input_ids=((4, 5),))
    by_text = read(loaded, file, "the cat")
    same(inputs.tensors, by_text.tensors)
    assert inputs.tokens == by_text.tokens


REFUSED: list[tuple[str, tuple[str, ...], dict[str, Any], str]] = [
    ("llava", ("<image> the <image>",), {}, "Found total 2 <image> tokens and 1 images"),
    ("llava", ("the", "cat"), {}, "there are 2 texts and one picture"),
    ("llava", (), {}, "reads a picture and text: give --text, too"),
    ("llava", (), {"drawn": 4}, "--image and --length say the same"),
    ("llava", ("the " * 300,), {}, "take 304 tokens and the model has 256 positions"),
    ("qwen2_vl", (), {"input_ids": ((4, 5),)}, "in pieces that only its own processor cuts"),
]


@pytest.mark.parametrize(("name", "texts", "more", "said"), REFUSED)
def test_refused(
    name: str, texts: tuple[str, ...], more: dict[str, Any], said: str, made: Made
) -> None:
    loaded, file = made(name)
    with pytest.raises(AttnError, match=said) as caught:
        read(loaded, file, *texts, **more)
    assert "\n" not in caught.value.message


SETTINGS: list[tuple[str, str, str]] = [
    ("preprocessor_config.json", "{", "is not valid JSON"),
    ("preprocessor_config.json", "[]", "is JSON but no object"),
    ("preprocessor_config.json", '{"image_processor_type": 3}', "its processor cannot be made"),
    ("preprocessor_config.json", '{"size": "big"}', "its processor cannot be made"),
    ("preprocessor_config.json", '{"size": {"height": -5, "width": 2}}', "cannot make an input"),
    ("preprocessor_config.json", '{"image_mean": [1]}', "cannot make an input of this: mean must"),
    ("processor_config.json", '{"patch_size": 0}', "cannot make an input of this: "),
    ("processor_config.json", "{", "is not valid JSON"),
]


@pytest.mark.parametrize(("file", "content", "said"), SETTINGS)
def test_settings_that_make_no_input(file: str, content: str, said: str, tmp_path: Path) -> None:
    loaded, image = picture_model(tmp_path, "llava"), picture(tmp_path)
    path = tmp_path / file
    if content.startswith('{"'):
        content = json.dumps({**json.loads(path.read_text()), **json.loads(content)})
    path.write_text(content)
    with pytest.raises(InputError, match=said) as caught:
        read(loaded, image, "the cat")
    assert "\n" not in caught.value.message


def test_a_processor_that_is_missing(tmp_path: Path) -> None:
    loaded, image = picture_model(tmp_path, "qwen2_vl"), picture(tmp_path)
    for name in ("processor_config.json", "preprocessor_config.json"):
        (tmp_path / name).unlink()
    with pytest.raises(UnsupportedError, match="only its own processor cuts") as caught:
        read(loaded, image, "the cat")
    assert "put processor_config.json or preprocessor_config.json" in caught.value.hint


def test_code_of_a_processor_is_not_run(tmp_path: Path) -> None:
    loaded, image = picture_model(tmp_path, "llava"), picture(tmp_path)
    (tmp_path / "own.py").write_text("raise RuntimeError('was run')")
    own = json.dumps({"auto_map": {"AutoProcessor": "own.Own", "AutoImageProcessor": "own.Own"}})
    for name in ("processor_config.json", "preprocessor_config.json"):
        (tmp_path / name).write_text(own)
    with pytest.raises(AttnError) as caught:
        read(loaded, image, "the cat")
    assert "was run" not in caught.value.message


@pytest.mark.skipif(importlib.util.find_spec("num2words") is not None, reason="num2words is there")
def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    loaded = picture_model(tmp_path, "idefics3")
    settings = json.dumps({"processor_class": "SmolVLMProcessor"})
    (tmp_path / "processor_config.json").write_text(settings)
    with pytest.raises(UnsupportedError, match="it needs num2words, which is not installed"):
        own_processor(loaded)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("size"), "there is no 'size'"),
        (MemoryError(), "does not fit in memory"),
        (ValueError("one\ntwo"), "so: one"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_any_error_is_one_sentence(error: Exception, said: str) -> None:
    with pytest.raises(InputError) as caught, processing("so"):
        raise error
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_same_fails_where_inputs_part() -> None:
    with pytest.raises(AssertionError):
        same({"a": torch.zeros(2)}, {"a": torch.ones(2)})
    with pytest.raises(AssertionError):
        same({"a": torch.zeros(2)}, {})


def test_a_picture_has_its_tensors_in_the_precision_of_the_model(tmp_path: Path) -> None:
    loaded = picture_model(tmp_path, "qwen2_vl")
    half = replace(loaded, model=loaded.model.to(torch.bfloat16))
    tensors = read(half, picture(tmp_path), "the cat").tensors
    assert tensors["pixel_values"].dtype == torch.bfloat16
    assert tensors["image_grid_thw"].dtype == torch.int64
