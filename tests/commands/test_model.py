"""attn model on the command line: exit codes, what is printed where, JSON, files, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli import formats
from attn_cli.commands.main import main

IDS = "7,21,33,7,60,81,4,90,12"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What the command prints; it must say nothing on stderr."""
    assert main(["model", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """The words of a refusal: one line and a hint, nothing on stdout, no traceback."""
    assert main(["model", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("attn: ")
    assert len(captured.err.splitlines()) <= 2
    return captured.err


@pytest.fixture
def tiny(samples: Path) -> list[str]:
    """The sample with drawn weights on nine ids."""
    return [str(samples / "tiny_gemma2"), "--random-weights", "--input-ids", IDS]


def test_coverage_comes_first_and_findings_last(
    capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    lines = shown(capsys, *tiny).splitlines()
    assert lines[2].startswith("all 4 layers are softmax attention")
    assert "softmax in float32" in lines
    assert "output bit-equal to that of the untouched model" in lines
    masks = [line.split()[:3] for line in lines if line.startswith(("0, 2 ", "1, 3 "))]
    assert masks == [["0,", "2", "window(6)"], ["1,", "3", "causal"]]
    holds = "✓ every row sums to 1 · no empty rows · the last token changed: 8 rows that do not"
    assert lines[-1].startswith(holds)


def test_a_matrix_has_a_number_for_every_head(
    capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    text = shown(capsys, *tiny, "--figure", "max_score,first_key_weight")
    assert "normalized_entropy" not in text
    for name in ("max_score", "first_key_weight"):
        lines = text.splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{name} "))
        assert lines[at + 1].split() == ["layer", "0", "1", "2", "3"]
        for layer, line in enumerate(lines[at + 2 : at + 6]):
            assert line.split()[0] == str(layer)
            assert len(line.split()) == 5


def test_json_has_an_object_a_head(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    told = json.loads(shown(capsys, *tiny, "--json"))
    assert told["schema"] == "attn.model/1"
    assert [layer["path"] for layer in told["layers"]] == [
        f"model.layers.{number}.self_attn" for number in range(4)
    ]
    assert [(head["layer"], head["head"]) for head in told["heads"]] == [
        (layer, head) for layer in range(4) for head in range(4)
    ]
    head = told["heads"][0]
    assert head["path"] == "model.layers.0.self_attn"
    assert 0 < head["entropy"] < np.log(6)
    assert head["next_weight"] is None
    assert told["masks"][0]["calls"] == ["model.layers.0.self_attn", "model.layers.2.self_attn"]
    assert told["checks"][0]["name"] == "later token"
    assert told["output"]["verdict"] == "identical"
    assert told["model"]["tokens"] == [[f"#{i}" for i in IDS.split(",")]]
    assert {"attn", "torch", "transformers"} <= told["versions"].keys()


def test_layers_narrow_the_table_to_heads(
    capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    lines = shown(capsys, *tiny, "--layer", "1-2", "--head", "0,3", "--bits").splitlines()
    at = next(number for number, line in enumerate(lines) if line.lstrip().startswith("layer  "))
    assert lines[at].split()[:4] == ["layer", "head", "entropy/bit", "of"]
    assert [line.split()[0] for line in lines[at + 1 : at + 5]] == ["1", "3", "2", "3"]
    assert not any(line.startswith("normalized_entropy") for line in lines)


def test_one_head_is_shown_in_full(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    text = shown(capsys, *tiny, "--layer", "0", "--head", "1")
    assert "── model.layers.0.self_attn, head 1 ─" in text
    for stage in ("q_proj", "scores", "scaled", "softcapped", "masked", "weights", "o_proj"):
        assert f"\n{stage} " in text
    assert "20 · tanh(scaled ÷ 20)" in text
    assert "window(6) hides 42 of 81" in text
    assert "\n   1  #7₀ " in text


def test_queries_narrow_the_full_view(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    arguments = (*tiny, "--layer", "1", "--head", "1", "--query", "2,5", "--json")
    (view,) = json.loads(shown(capsys, *arguments))["views"]
    assert [row["query"] for row in view["run"]["rows"]] == [2, 5]
    assert {row["head"] for row in view["run"]["rows"]} == {1}


def test_a_length_draws_an_input(capsys: pytest.CaptureFixture[str], samples: Path) -> None:
    folder = [str(samples / "tiny_gemma2"), "--random-weights", "--json"]
    drawn = json.loads(shown(capsys, *folder, "--length", "5"))
    again = json.loads(shown(capsys, *folder, "--length", "5"))
    other = json.loads(shown(capsys, *folder, "--length", "5", "--seed", "1"))
    assert drawn["model"]["lengths"] == [5]
    assert drawn["heads"] == again["heads"]
    assert drawn["heads"] != other["heads"]


def test_one_layer_is_saved_as_a_file_that_is_read_again(
    capsys: pytest.CaptureFixture[str], tiny: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "layer.safetensors"
    assert main(["model", *tiny, "--layer", "1", "--save", str(path)]) == 0
    assert capsys.readouterr().err == f"Wrote {path}\n"
    dump = formats.read(str(path))
    assert {"q", "k", "v", "scores", "masked", "weights", "context"} <= dump.arrays.keys()
    assert main(["check", "dump", str(path)]) == 0
    assert "6 stages recomputed, and each follows from what is before it" in capsys.readouterr().out
    assert main(["diff", str(path), str(path)]) == 0
    capsys.readouterr()
    assert "already exists" in refused(capsys, *tiny, "--layer", "1", "--save", str(path))


def test_a_folder_has_a_file_a_call_with_the_stages_that_were_named(
    capsys: pytest.CaptureFixture[str], tiny: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "stages"
    assert main(["model", *tiny, "--save", str(out), "--stages", "q,k,v,weights"]) == 0
    capsys.readouterr()
    files = sorted(path.name for path in out.iterdir())
    assert files == [f"model.layers.{number}.self_attn.safetensors" for number in range(4)]
    arrays = formats.read(str(out / files[0])).arrays
    assert arrays.keys() - {"additive_mask"} == {"q", "k", "v", "weights"}


def test_fail_on_looks_at_the_findings(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    shown(capsys, *tiny, "--fail-on", "error")


def test_help_names_the_extra_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'attn-cli[hf]'" in " ".join(shown(capsys, "--help").split())


def test_list_names_figures_and_letters(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--list")
    assert "\nnormalized_entropy " in text
    assert "\np previous " in text


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "no PATH was given"),
        (["{empty}", "--text", "a"], "holds no config.json"),
        (["{tiny}", "--text", "a"], "holds no weights"),
        (["{tiny}", "--random-weights", "--text", "a"], "no tokenizer"),
        (["{tiny}", "--random-weights", "--image", "x.png"], "picture"),
        (["{tiny}", "--random-weights", "--input-ids", "1,x"], "--input-ids has 'x'"),
        (["{tiny}", "--random-weights", "--input-ids", "1,100"], "the vocabulary has 100"),
        (["{tiny}", "--random-weights", "--length", "65"], "64 positions"),
        (["{tiny}", "--random-weights", "--stages", "q"], "--save is not given"),
        (["{tiny}", "--random-weights", "--figure", "entrpy"], "no figure 'entrpy'"),
        (["{tiny}", "--random-weights", "--save", "x.npz"], "4 calls are chosen"),
        (["{tiny}", "--random-weights", "--save", ""], "--save has no path"),
        (
            ["{tiny}", "--random-weights", "--save", "out", "--stages", "biased"],
            "no stage 'biased'",
        ),
        (["{tiny}", "--random-weights", "--prometheus", ""], "--prometheus has no path"),
        (["{tiny}", "--random-weights", "--prometheus", "no/x.prom"], "folder does not exist"),
        (["{tiny}", "--random-weights", "--check", "cahce"], "no check 'cahce'"),
        (
            [
                "{tiny}",
                "--random-weights",
                "--layer",
                "0",
                "--save",
                "x.npz",
                "--prometheus",
                "x.npz",
            ],
            "are one file",
        ),
        (["{tiny}", "--random-weights", "--layer", "7"], "no attention in a layer 7"),
        (["{tiny}", "--random-weights", "--dtype", "float8"], "no precision 'float8'"),
    ],
)
def test_what_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str],
    samples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"{tiny}": str(samples / "tiny_gemma2"), "{empty}": str(tmp_path)}
    assert words in refused(capsys, *(places.get(each, each) for each in arguments))


def test_a_model_without_softmax_attention_ends_with_3(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config: dict[str, Any] = {
        "model_type": "mamba",
        "architectures": ["MambaForCausalLM"],
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "vocab_size": 50,
        "state_size": 4,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    said = refused(capsys, str(tmp_path), "--random-weights", code=3)
    assert "1 is mamba" in said
