"""A name on the hub: fetched, read, pinned, refused; by a hub on this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attn_cli.commands.main import main
from attn_cli.errors import InputError
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import LoadOptions
from tests.unit.models.hf.local_hub import COMMIT, LocalHub, point_to, serving
from tests.unit.models.hf.test_loading import saved

NAME = "somebody/small"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A hub with one model and its vocabulary, and an empty cache."""
    made = LocalHub(tmp_path / "hub")
    folder = made.root / NAME
    folder.parent.mkdir(parents=True)
    shutil.move(str(saved(tmp_path, "bert")), folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", "on"]
    (folder / "vocab.txt").write_text("\n".join(words))
    with serving(made) as address:
        point_to(monkeypatch, address, tmp_path / "cache")
        monkeypatch.chdir(tmp_path)
        yield made


def test_a_name_gives_configuration_tokenizer_and_weights(
    hub: LocalHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", NAME, "--text", "the cats", "--json"]) == 0
    told = capsys.readouterr()
    assert told.err == ""  # no bar of progress, nothing of the client's own
    report = json.loads(told.out)
    assert report["model"]["tokens"] == [["[CLS]", "the", "cat", "s", "[SEP]"]]
    notes = [each["message"] for each in report["findings"] if each["code"] == "hub"]
    assert notes == [f"{NAME} is the hub's, at {COMMIT[:12]}"]
    here = load(LoadOptions(source=str(hub.root / NAME))).model.state_dict()
    torch.testing.assert_close(load(LoadOptions(source=NAME)).model.state_dict(), here)


def test_what_was_fetched_is_used_without_a_hub(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(LoadOptions(source=NAME))
    asked = len(hub.asked)
    load(LoadOptions(source=NAME))
    assert not [file for file in hub.asked[asked:] if file.endswith((".json", ".safetensors"))]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load(LoadOptions(source=NAME)).tokenizer is not None


def test_drawn_weights_fetch_none(hub: LocalHub) -> None:
    assert load(LoadOptions(source=NAME, random_weights=True)).random
    assert "model.safetensors" not in hub.asked
    assert "config.json" in {path.rpartition("/")[2] for path in hub.asked}


def test_only_the_weights_that_are_read_are_fetched(hub: LocalHub) -> None:
    folder = hub.root / NAME
    whole = load(LoadOptions(source=str(folder))).model
    for other in ("pytorch_model.bin", "model.fp16.safetensors", "onnx/model.safetensors"):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_bytes(b"never fetched")
    (folder / "model.safetensors").unlink()
    whole.save_pretrained(folder, max_shard_size="30KB")
    load(LoadOptions(source=NAME))
    weights = {path for path in hub.asked if path.endswith(("safetensors", "bin"))}
    assert len(weights) > 1
    assert all("/model-0000" in f"/{path}" for path in weights)


def refused(name: str) -> InputError:
    with pytest.raises(InputError) as caught:
        load(LoadOptions(source=name))
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "said", "hint"),
    [
        (401, "RepoNotFound", "has no such model, or a private one", "hf auth login"),
        (403, "GatedRepo", "its authors choose who may fetch it", "ask for access"),
        (401, "", "does not accept who asks for it", "HF_TOKEN"),
        (500, "", "could not be fetched from the hub: Server error '500", "try again"),
    ],
)
def test_the_hub_refuses(status: int, code: str, said: str, hint: str, hub: LocalHub) -> None:
    hub.refusals["somebody/other"] = status, code
    error = refused("somebody/other")
    assert said in error.message
    assert hint in error.hint


def test_a_model_on_the_hub_that_is_not_whole(hub: LocalHub) -> None:
    (hub.root / NAME / "model.safetensors").unlink()
    assert "holds no weights" in refused(NAME).message
    (hub.root / "somebody/none").mkdir()
    (hub.root / "somebody/none/a.txt").write_text("x")
    assert "on the hub it holds no config.json" in refused("somebody/none").message


def test_no_hub(hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no name on the hub has this form" in refused("some body/x").message
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = refused("somebody/other")
    assert "HF_HUB_OFFLINE keeps the hub from being asked" in error.message
    point_to(monkeypatch, "http://127.0.0.1:9", tmp_path / "cache")
    assert "could not be fetched from the hub: [Errno" in refused("somebody/other").message


def test_a_folder_goes_before_a_name(hub: LocalHub, tmp_path: Path) -> None:
    shutil.copytree(hub.root / NAME, tmp_path / NAME)
    assert load(LoadOptions(source=NAME)).folder == Path(NAME)
    assert hub.asked == []
