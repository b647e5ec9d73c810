"""Folders as people have them: whole, damaged, of unknown or foreign models; one line each."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.models.hf.extra import transformers
from attn_cli.models.hf.forward import forward
from attn_cli.models.hf.inputs import inputs_of_ids
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import LoadOptions
from tests.unit.models.hf.making import drawn, folder_of, made


def saved(root: Path, name: str = "llama", **options: Any) -> Path:
    """A checkpoint with its weights."""
    loaded = made(root / "config", name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded.model.save_pretrained(root / "saved", **options)
    return root / "saved"


def test_a_folder_gives_the_model_that_was_saved(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    loaded, again = made(tmp_path / "again", "llama"), load(LoadOptions(source=str(folder)))
    assert (again.architecture, again.kind, again.dtype) == (
        "LlamaForCausalLM",
        "decoder",
        "float32",
    )
    assert (again.backend, again.positions, again.tokenizer) == ("sdpa", 64, None)
    assert not again.model.training
    inputs = drawn(loaded)
    torch.testing.assert_close(forward(again, inputs), forward(loaded, inputs), rtol=0, atol=0)


def test_shards_and_pickled_weights_are_read(tmp_path: Path) -> None:
    folder = saved(tmp_path, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    loaded = load(LoadOptions(source=str(folder)))
    state = loaded.model.state_dict()
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    torch.save(state, folder / "pytorch_model.bin")
    again = load(LoadOptions(source=str(folder)))
    torch.testing.assert_close(again.model.state_dict(), state, rtol=0, atol=0)


def test_precision_and_backend_are_chosen(tmp_path: Path) -> None:
    folder = str(saved(tmp_path))
    loaded = load(LoadOptions(source=folder, dtype="bfloat16", backend="eager"))
    assert (loaded.dtype, loaded.backend) == ("bfloat16", "eager")


def test_random_weights_repeat_and_are_said(tmp_path: Path) -> None:
    loaded, again = made(tmp_path, "gpt2"), made(tmp_path, "gpt2")
    torch.testing.assert_close(again.model.state_dict(), loaded.model.state_dict())
    assert [finding.code for finding in loaded.notes] == ["random-weights"]
    other = load(LoadOptions(source=str(tmp_path), random_weights=True, seed=2))
    assert not torch.equal(other.model.lm_head.weight, loaded.model.lm_head.weight)


@pytest.mark.parametrize(
    ("name", "architectures", "expected"),
    [
        ("bert", ["BertForTokenClassification"], "BertForTokenClassification"),
        ("bert", None, "BertLMHeadModel"),
        ("t5", None, "T5ForConditionalGeneration"),
        ("vit", None, "ViTModel"),
        ("clip", None, "CLIPModel"),
        ("llava", None, "LlavaForConditionalGeneration"),
        ("whisper", None, "WhisperForConditionalGeneration"),
    ],
)
def test_the_class_is_the_one_that_is_named(
    name: str, architectures: list[str] | None, expected: str, tmp_path: Path
) -> None:
    assert made(tmp_path, name, architectures=architectures).architecture == expected


def refused(source: Path, **options: Any) -> AttnError:
    with pytest.raises(AttnError) as caught:
        load(LoadOptions(source=str(source), **options))
    assert "\n" not in caught.value.message
    return caught.value


def test_no_folder_and_no_config(tmp_path: Path) -> None:
    assert "no such folder" in refused(tmp_path / "nowhere").message
    assert "holds no config.json" in refused(tmp_path).message
    file = tmp_path / "a.txt"
    file.write_text("x")
    assert "is not a folder" in refused(file).message


def test_config_that_is_none(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for text, said in (
        ("{", "is not valid JSON"),
        ("[]", "is JSON but no object"),
        ("{}", "has no model_type"),
        ('{"model_type": "llamma"}', "does not know the model_type 'llamma'"),
        ('{"model_type": "llama", "hidden_size": "wide"}', ""),
        ('{"model_type": "llama", "num_attention_heads": 0}', ""),
        ('{"model_type": "llama", "num_hidden_layers": 1000000000}', "1,000,000,000"),
        ('{"model_type": "llava", "text_config": {"n_layer": 10001}}', "n_layer 10,001"),
    ):
        config.write_text(text)
        assert said in refused(tmp_path, random_weights=True).message


def test_code_of_its_own_that_nobody_needs_is_said_not_to_run(tmp_path: Path) -> None:
    """A family that transformers knows, whose weights bring code all the same."""
    folder = saved(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "mine.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text("raise SystemExit('was run')")
    codes = [finding.code for finding in load(LoadOptions(source=str(folder))).notes]
    assert codes == ["own-code-not-run"]


def test_code_of_its_own_is_not_run(tmp_path: Path) -> None:
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text("raise SystemExit('was run')")
    error = refused(tmp_path)
    assert isinstance(error, UnsupportedError)
    assert "code of its own, which is not run" in error.message
    assert "--trust-remote-code" in error.hint


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    error = refused(Path(folder_of(tmp_path, "llama")))
    assert "holds no weights" in error.message
    assert "--random-weights" in error.hint


@pytest.mark.parametrize("cut", [4, 200, -1000])
def test_a_shard_that_is_cut_off(cut: int, tmp_path: Path) -> None:
    file = saved(tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    error = refused(file.parent)
    assert "a file of weights is damaged" in error.message


def test_a_shard_that_is_missing(tmp_path: Path) -> None:
    folder = saved(tmp_path, max_shard_size="20KB")
    next(iter(sorted(folder.glob("*.safetensors")))).unlink()
    assert "cannot be read" in refused(folder).message


def test_a_pickle_that_is_no_weights(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n.")
    assert isinstance(refused(folder), InputError)


def test_weights_that_are_missing_or_misshapen(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    assert "9 weights are missing, the first 'model.layers.2" in refused(folder).message
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 40}))
    message = refused(folder).message
    assert "6 weights are of another shape than config.json says, the first" in message


def test_a_name_that_the_hub_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a network a name can be no more than a name."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    error = refused(Path("nobody/nothing"))
    assert "HF_HUB_OFFLINE keeps the hub from being asked" in error.message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "int8"}, "no precision 'int8'"),
        ({"device": "nowhere"}, "on device 'nowhere'"),
        ({"backend": "flash_attention_2"}, "cannot look into the attention backend"),
    ],
)
def test_what_is_not_there(options: dict[str, str], said: str, tmp_path: Path) -> None:
    folder = Path(folder_of(tmp_path, "llama"))
    assert said in refused(folder, random_weights=True, **options).message


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnsupportedError, match="transformers is not installed") as caught:
        transformers()
    assert caught.value.hint == "pip install 'attn-cli[hf]'"


def test_an_old_transformers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers(), "__version__", "4.57.0")
    with pytest.raises(UnsupportedError, match=r"transformers 4\.57\.0 is too old"):
        transformers()


def test_positions_behind_padding_do_not_count(tmp_path: Path) -> None:
    """RoBERTa counts positions from behind its padding id: of 64 two are never used."""
    loaded = made(tmp_path, "roberta", pad_token_id=1)
    assert loaded.positions == 62
    assert forward(loaded, inputs_of_ids(loaded, [[5] * 62]))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"architectures": 5}, ""),
        ({"hidden_size": 10**9}, "does not fit in memory"),
        ({"hidden_size": None}, "Validation error for field 'hidden_size': "),
        ({"num_attention_heads": 0}, "transformers cannot make a model of it"),
        ({"vocab_size": -1}, "transformers cannot make a model of it"),
    ],
)
def test_a_hostile_configuration(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = Path(folder_of(tmp_path, "llama"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **more}))
    if not said:
        assert load(LoadOptions(source=str(folder), random_weights=True)).kind == "decoder"
        return
    assert said in refused(folder, random_weights=True).message


class Touches:
    """What a pickle may do when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_a_pickle_that_would_run_code(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "model.safetensors").unlink()
    torch.save({"a": Touches(tmp_path / "ran")}, folder / "pytorch_model.bin")
    assert "holds something else, which is not run" in refused(folder).message
    assert not (tmp_path / "ran").exists()
