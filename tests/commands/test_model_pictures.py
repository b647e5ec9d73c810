"""attn model --image: a picture and its text by the model's own processor, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attn_cli.commands.main import main
from tests.unit.models.hf.picture_models import picture, picture_folder


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A tiny Qwen2-VL, a picture of eight patches and a text of eight tokens with it."""
    root = tmp_path_factory.mktemp("qwen2_vl")
    text = ["--text", "the cat sat down"]
    folder = str(picture_folder(root, "qwen2_vl"))
    return ["model", folder, "--random-weights", "--image", picture(root), *text]


def test_the_report_names_the_positions_of_the_picture(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*given, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["model"]["tokens"][0][:4] == [
        "<|vision_start|>",
        "image 0",
        "image 1",
        "<|vision_end|>",
    ]
    assert report["output"]["verdict"] == "identical"
    (last,) = report["checks"]  # the tower has as many patches as there are tokens
    assert (last["changed"], last["held"]) == ("the last token", 7)


def test_ways_of_running_beside_a_picture(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*given, "--check", "padding,batch", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    verdicts = {check.get("words"): check["verdict"] for check in checks}
    assert verdicts["between two others in a batch"] in ("identical", "rounding")
    assert verdicts["padding behind the text"] is None


def test_where_words_look_at_the_picture(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*given, "--flow", "/cat|sat/ -> /image/", "--json"]) == 0
    flow = json.loads(capsys.readouterr().out)["flow"]
    assert flow
    assert main([*given, "--layer", "1", "--head", "0"]) == 0
    assert "image 0" in capsys.readouterr().out


def test_a_part_of_a_picture_is_never_changed_by_a_probe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LLaVA's text begins with the picture, and wants as many of its tokens as there are parts."""
    folder = str(picture_folder(tmp_path, "llava"))
    words = ["--image", picture(tmp_path), "--text", "the cat", "--json"]
    assert main(["model", folder, "--random-weights", *words]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    said = {check["name"]: (check["changed"], check["held"]) for check in checks}
    assert said["first token"] == ("the first token of text", 4)
