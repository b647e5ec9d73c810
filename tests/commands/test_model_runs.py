"""attn model --check and --diff: exit codes, the table, JSON, what cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attn_cli.commands.main import main


@pytest.fixture
def tiny(samples: Path) -> list[str]:
    """The sample with drawn weights on nine drawn ids."""
    return ["model", str(samples / "tiny_gemma2"), "--random-weights", "--length", "9"]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_every_way_has_a_line(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    lines = shown(capsys, *tiny, "--check", "cache,packing").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("check "))
    assert lines[start + 1].split()[:4] == ["cache", "prefill", "of", "5,"]
    assert "rounding" in lines[start + 1] or "identical" in lines[start + 1]
    assert any(line.startswith("not held  packing: ") for line in lines)
    assert lines[-1].strip().startswith("2 ways of running the text give the same")
    assert not any(line.startswith("normalized_entropy") for line in lines)


def test_json_has_checks_beside_the_probes(
    capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    told = json.loads(shown(capsys, *tiny, "--check", "batch,packing", "--json"))
    assert told["schema"] == "attn.model/1"
    ways = {(c["name"], c["way"]): c for c in told["checks"] if "way" in c}
    assert ways["batch", "batch"]["verdict"] in ("identical", "rounding")
    assert ways["batch", "batch"]["compared"] == 9  # 4 calls, 4 layers, the output
    assert ways["packing", "document mask"]["verdict"] is None
    assert "windows" in ways["packing", "document mask"]["why"]
    assert any("way" not in check for check in told["checks"])
    assert told["diff"] is None


def test_another_seed_parts_at_the_embedding(
    capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    lines = shown(capsys, *tiny, "--diff", "seed=3", code=1).splitlines()
    assert any("own, input" in line for line in lines)
    assert "models-differ" in lines[-1]
    assert "the models part first at model.layers.0.self_attn: the token vectors" in " ".join(lines)


def test_json_of_two_precisions(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    told = json.loads(shown(capsys, *tiny, "--diff", "dtype=bfloat16", "--json"))["diff"]
    assert told["left"]["dtype"] == "float32"
    assert told["right"]["dtype"] == "bfloat16"
    assert told["verdict"] == "rounding"
    assert told["first_difference"] is None
    assert [layer["layer"] for layer in told["layers"]] == [0, 1, 2, 3]
    stages = told["layers"][1]["stages"]
    assert list(stages) == ["q", "k", "v", "scores", "weights", "context", "output"]
    assert 0 < stages["q"]["max_abs"] < stages["q"]["budget"]


def test_a_smaller_vocabulary_is_said(
    capsys: pytest.CaptureFixture[str], tiny: list[str], tmp_path: Path
) -> None:
    config = json.loads((Path(tiny[1]) / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": 8}))
    text = " ".join(shown(capsys, *tiny, "--diff", str(tmp_path), code=1).split())
    assert text.endswith("its vocabulary has 8; nothing behind it is compared tokens-differ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--check", "paddin"], "padding"),
        (["--check", ""], "check"),
        (["--diff", "backend=flash"], "sdpa"),
        (["--diff", "nowhere/at/all"], "nowhere"),
        (["--diff", "dtype=float33"], "float33"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    capsys: pytest.CaptureFixture[str], tiny: list[str], arguments: list[str], words: str
) -> None:
    assert main([*tiny, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= 2


def test_checks_of_which_none_applies_are_undecided(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import transformers

    config = transformers.AutoConfig.for_model(
        "bert", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=20
    )
    config.save_pretrained(tmp_path)
    arguments = ["model", str(tmp_path), "--random-weights", "--check", "cache"]
    text = shown(capsys, *arguments, code=3)
    assert "an encoder has no cache" in " ".join(text.split())
    assert "no-check" in text
