"""--device-map: a model that is larger than memory, what it refuses, and what is said of it."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.errors import AttnError
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.forward import forward
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import LoadOptions
from attn_cli.models.hf.row_statistics import RowStatistics
from attn_cli.models.hf.seen_tensors import SeenTensors
from attn_cli.stats import STATISTICS
from tests.unit.models.hf.making import drawn
from tests.unit.models.hf.test_loading import refused, saved


def small_memory(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """The machine has no device but a CPU with so many bytes."""
    where = "transformers.integrations.accelerate.accelerate_max_memory"
    monkeypatch.setattr(where, lambda asked=None: {"cpu": room})


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss", "t5", "bloom"])
@pytest.mark.parametrize("room", [60_000, 0])
def test_weights_on_the_disk_give_what_they_give_in_memory(
    name: str, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(saved(tmp_path, name))
    whole = load(LoadOptions(source=folder))
    small_memory(monkeypatch, room)
    spread = load(LoadOptions(source=folder, device_map="auto"))
    assert "disk" in spread.model.hf_device_map.values()
    assert spread.device == torch.device("cpu")
    assert ["on disk" in note.message for note in spread.notes] == [True]
    ours, theirs = (RowStatistics([STATISTICS["entropy"]]) for _ in range(2))
    expected = capture(whole, drawn(whole), [theirs])
    result = capture(spread, drawn(spread), [ours])
    assert result.check is not None
    assert result.check.verdict == "identical"
    torch.testing.assert_close(result.outputs, expected.outputs, rtol=0, atol=0)
    for place, rows in theirs.rows.items():
        np.testing.assert_array_equal(ours.rows[place].lse, rows.lse)


def test_what_was_written_to_the_disk_goes_with_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pickled weights are stored anew, each by itself."""
    folder = saved(tmp_path, "bert")
    state = load(LoadOptions(source=str(folder))).model.state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    small_memory(monkeypatch, 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spread = load(LoadOptions(source=str(folder), device_map="auto"))
    assert forward(spread, drawn(spread))
    assert list(tmp_path.glob("attn-weights-*/*.safetensors"))
    del spread
    gc.collect()
    assert not list(tmp_path.glob("attn-weights-*"))


def test_a_model_that_cannot_run_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(saved(tmp_path, "siglip_vision_model"))
    small_memory(monkeypatch, 0)
    spread = load(LoadOptions(source=folder, device_map="auto"))
    with pytest.raises(AttnError, match="does not run with weights on the disk"):
        forward(spread, drawn(spread))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device_map": "automatic"}, "there is no device map 'automatic'"),
        ({"device_map": "disk"}, "there is no device map 'disk'"),
        ({"device_map": "auto", "device": "cuda"}, "--device cuda names one device"),
        ({"device_map": "auto", "random_weights": True}, "--random-weights reads none"),
    ],
)
def test_what_a_map_leaves_no_room_for(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path, **options).message


def test_a_tensor_is_looked_at_once_while_it_lives() -> None:
    seen: SeenTensors[int] = SeenTensors()
    looked: list[float] = []

    def look(each: torch.Tensor) -> int:
        looked.append(float(each))
        return len(looked)

    for _ in range(3):
        tensor = torch.ones(1)
        assert seen.of(tensor, look) == seen.of(tensor, look)
        del tensor  # the next one may take its id
    assert len(looked) == 3
