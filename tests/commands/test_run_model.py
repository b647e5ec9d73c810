"""attn run on a model: exit codes, JSON, what --layer narrows, and one line for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.commands.main import main
from tests.unit.models.files import Toy, toy

TEXT = "a b c a"


@pytest.fixture
def induction(samples: Path) -> str:
    return str(samples / "induction.safetensors")


@pytest.fixture
def sentence(samples: Path) -> str:
    return str(samples / "sentence_model.safetensors")


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON of a run that must go well."""
    assert main(["run", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    fields: dict[str, Any] = json.loads(out)
    return fields


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """The two lines that say why it cannot run."""
    assert main(["run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    message, _, hint = err.rstrip("\n").partition("\n      ")
    assert message.startswith("attn: ")
    assert "\n" not in hint
    return message.removeprefix("attn: "), hint


def test_json_has_every_layer_in_the_schema_of_a_run(
    induction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = set(ran(capsys, str(Path(induction).with_name("apple.json"))))
    fields = ran(capsys, induction, "--text", TEXT, "--values", "weights,output")
    assert fields["schema"] == "attn.run/1"
    assert set(fields) == plain | {"values_by_layer", "model", "predictions"}
    assert fields["input"]["kind"] == "model"
    assert fields["input"]["queries"] == 4
    assert fields["settings"]["mask"] == "causal"
    assert fields["model"] == {
        "layers": 2,
        "vocabulary": 8,
        "positions": "learned",
        "norm": "none",
        "residual": True,
    }
    assert [row["layer"] for row in fields["rows"]] == [0] * 4 + [1] * 4
    assert [head["layer"] for head in fields["heads"]] == [0, 1]
    assert {shape["layer"] for shape in fields["shapes"]} == {0, 1}
    saturated = [f["where"]["layer"] for f in fields["findings"] if f["code"] == "saturated-row"]
    assert saturated == [0, 1]


def test_values_are_the_last_layers_and_by_layer_all(
    induction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ran(capsys, induction, "--text", TEXT, "--values", "weights")
    first, second = fields["values_by_layer"]
    assert fields["values"] == second
    assert set(first) == {"weights"}
    np.testing.assert_allclose(first["weights"][0][0][2], [0, 1, 0, 0], atol=1e-3)
    np.testing.assert_allclose(second["weights"][0][0][3], [0, 1, 0, 0], atol=1e-3)


def test_predictions_name_the_likeliest_tokens(
    induction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions = ran(capsys, induction, "--text", TEXT)["predictions"]
    assert [(p["query"], p["token"]) for p in predictions] == list(enumerate("abca"))
    assert [len(p["next"]) for p in predictions] == [5] * 4
    assert predictions[0]["entropy"] == pytest.approx(np.log(8))
    best = predictions[-1]["next"][0]
    assert best["token"] == "b"
    assert best["probability"] > 0.99


def test_layer_narrows_what_is_listed_and_not_what_is_computed(
    induction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    every = ran(capsys, induction, "--text", TEXT, "--values", "output")
    first = ran(capsys, induction, "--text", TEXT, "--values", "output", "--layer", "0")
    second = ran(capsys, induction, "--text", TEXT, "--values", "output", "--layer", "1")
    for name in ("rows", "heads", "shapes"):
        assert first[name] == [entry for entry in every[name] if entry["layer"] == 0]
        assert second[name] == [entry for entry in every[name] if entry["layer"] == 1]
    assert first["values"] == every["values_by_layer"][0]
    assert second["values"] == every["values_by_layer"][1]
    assert first["predictions"] == second["predictions"] == every["predictions"]
    codes = [sorted(f["code"] for f in run["findings"]) for run in (every, first, second)]
    assert codes[0] == codes[1] == codes[2]


def test_query_narrows_every_layer_and_the_predictions(
    induction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ran(
        capsys, induction, "--text", TEXT, "--query", "3", "--values", "weights,x,residual"
    )
    assert [(row["layer"], row["query"]) for row in fields["rows"]] == [(0, 3), (1, 3)]
    assert [prediction["query"] for prediction in fields["predictions"]] == [3]
    assert np.shape(fields["values"]["residual"]) == np.shape(fields["values"]["x"]) == (1, 1, 34)


def test_the_stream_runs_from_layer_to_layer(
    sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = ran(
        capsys, sentence, "--text", "我喜欢苹果", "--values", "embedded,x,output,residual,final"
    )["values"]
    assert list(values) == ["embedded", "x", "output", "residual", "final"]
    array = {name: np.array(value) for name, value in values.items()}
    np.testing.assert_array_equal(array["residual"], array["embedded"] + array["output"])
    np.testing.assert_allclose(array["x"].mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(array["final"].var(-1), 1, rtol=1e-4)


def test_the_shape_trace_says_every_step(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = ran(capsys, sentence, "--text", "我喜欢苹果")["shapes"]
    stages = [shape["stage"] for shape in shapes]
    assert stages[:3] == ["embedded", "stream", "x"]
    assert stages[-4:] == ["output", "residual", "final", "logits"]
    formulas = {shape["stage"]: shape["formula"] for shape in shapes}
    assert formulas["x"] == "LayerNorm(stream)"
    assert formulas["residual"] == "stream + output"
    assert shapes[-1]["axes"] == ["batch", "query", "vocabulary"]
    assert shapes[-1]["shape"] == [1, 3, 7]


@pytest.mark.parametrize("text", ["我 喜欢 苹果", "我喜欢苹果"])
def test_spaced_and_unspaced_text_are_the_same_tokens(
    text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ran(capsys, sentence, "--text", text)
    assert [row["token"] for row in fields["rows"][:3]] == ["我", "喜欢", "苹果"]
    codes = {finding["code"] for finding in fields["findings"]}
    assert ("longest-match" in codes) == (" " not in text)


def test_options_change_what_the_config_says(
    sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ran(capsys, sentence, "--text", "我喜欢", "--mask", "none", "--scale", "0.5")
    assert said["settings"]["mask"] is None
    assert said["settings"]["scale"] == 0.5
    assert said["settings"]["from_file"] == ["heads"]
    assert [row["visible_keys"] for row in said["rows"]] == [2] * 4


@pytest.mark.parametrize("options", [[], ["--positions", "rope"], ["--positions", "sinusoidal"]])
def test_positions_can_be_tried(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ran(capsys, sentence, "--text", "我喜欢苹果", "--positions", "none")
    other = ran(capsys, sentence, "--text", "我喜欢苹果", *options)
    assert plain["settings"]["positions"] is None
    assert plain["model"]["positions"] == "none"
    assert other["settings"]["positions"] in ("alibi", "rope:half", "sinusoidal")
    assert plain["rows"][2]["entropy"] != other["rows"][2]["entropy"]


@pytest.mark.parametrize("name, text", [("induction", TEXT), ("sentence_model", "我喜欢苹果")])
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_saved_layer_is_read_again(
    name: str,
    text: str,
    suffix: str,
    samples: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(tmp_path / f"layer{suffix}")
    layer = [str(samples / f"{name}.safetensors"), "--text", text, "--layer"]
    layer.append("1" if name == "induction" else "0")
    assert main(["run", *layer, "--save", path]) == 0
    assert capsys.readouterr().err == f"Wrote {path}\n"
    first = ran(capsys, *layer, "--values", "weights,output")
    again = ran(capsys, path, "--values", "weights,output")
    for stage, values in first["values"].items():
        np.testing.assert_allclose(again["values"][stage], values, rtol=1e-12, atol=1e-15)
    assert [row["token"] for row in again["rows"]] == [row["token"] for row in first["rows"]]


def test_layers_are_not_saved_together(
    induction: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "layers.npz"
    message, hint = refused(capsys, induction, "--text", TEXT, "--save", str(path))
    assert message == "--save holds the trace of one layer, and 2 are chosen"
    assert hint == "choose one: --layer 1"
    assert not path.exists()


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "holds a model: it needs a text"),
        (["--text", "a z"], "'z' is not in the model's vocabulary"),
        (["--text", ""], "the text holds no token"),
        (["--text", TEXT, "--layer", "2"], "there is no layer 2: this run has 2"),
        (["--text", TEXT, "--head", "1"], "there is no head 1: this run has 1"),
        (["--text", TEXT, "--heads", "2"], "--heads is for token vectors"),
        (["--text", TEXT, "--layout", "blhd"], "--layout is for token vectors"),
        (["--text", TEXT, "--context", "x.json"], "--context is for token vectors"),
        (["--text", TEXT, "--weights", "x.npz"], "--weights is for token vectors"),
        (["--text", TEXT, "--seed", "0"], "--seed is for token vectors"),
        (["--text", TEXT, "--positions", "relative"], "this model has no relative.weight"),
        (["--text", TEXT, "--positions", "rope:up"], "'rope:up': expected rope or rope:half"),
        (["--text", TEXT, "--positions", "roped"], "there is no position scheme 'roped'"),
        (["--text", TEXT, "--rope-base", "5"], "and the model's positions are learned"),
        (["--text", TEXT, "--positions", "rope"], "d_k is 9, expected an even number"),
        (["--text", TEXT, "--values", "normed"], "no layer that is shown has a stage 'normed'"),
        (
            ["--text", TEXT, "--layer", "1", "--values", "embedded"],
            "no layer that is shown has a stage 'embedded'",
        ),
        (["--text", TEXT, "--mask", "casual"], "there is no mask 'casual'"),
        (["--text", " ".join("ab" * 11)], "the learned positions end at 19"),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_what_cannot_be_is_said_in_a_line(
    arguments: list[str], words: str, induction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message, _ = refused(capsys, induction, *arguments)
    assert words in message


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--text", "a"], "--text is what a model reads"),
        (["--layer", "1"], "there is no layer 1: this run has 1"),
        (["--show", "predictions"], "holds no model, so nothing is predicted"),
        (["--values", "residual"], "only a model has a stage 'residual'"),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_what_only_a_model_has(
    arguments: list[str], words: str, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message, _ = refused(capsys, str(samples / "apple.json"), *arguments)
    assert words in message


def test_layer_0_of_token_vectors_is_all_there_is(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apple = str(samples / "apple.json")
    assert ran(capsys, apple, "--layer", "0") == ran(capsys, apple)


def test_fail_on_counts_layers_that_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = toy(layers=2, mask="causal")
    lost = np.array(made.arrays["layers.0.w_v"])
    lost[0, 0] = np.nan
    path = made.with_arrays({"layers.0.w_v": lost}).save(tmp_path / "toy.safetensors")
    asked = ["run", path, "--text", "the cat", "--layer", "1", "--fail-on", "error"]
    assert main(asked) == 1
    out, _ = capsys.readouterr()
    assert "layer 0, not shown, has" in out
    assert "not finite" in out


def test_logits_that_are_not_finite_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = toy(mask="causal")
    lost = np.array(made.arrays["unembedding.weight"])
    lost[2, 1] = np.nan
    path = made.with_arrays({"unembedding.weight": lost}).save(tmp_path / "toy.safetensors")
    fields = ran(capsys, path, "--text", "the cat")
    (said,) = [f for f in fields["findings"] if f["code"] == "nonfinite"]
    assert said["where"]["stage"] == "logits"
    assert said["message"].startswith("the logits are not finite, the first at query 0, token 2")
    for prediction in fields["predictions"]:
        assert prediction["next"] == []
        assert prediction["entropy"] is None


def test_without_an_unembedding_nothing_is_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = toy().without("unembedding.weight").save(tmp_path / "toy.safetensors")
    assert ran(capsys, path, "--text", "the cat")["predictions"] == []
    assert main(["run", path, "--text", "the cat"]) == 0
    assert "predictions" not in capsys.readouterr().out


def test_a_broken_model_ends_in_json_where_json_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Toy(toy().without("layers.0.w_q").arrays, toy().config)
    path = broken.save(tmp_path / "toy.safetensors")
    assert main(["run", path, "--text", "the", "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"] == "attn.error/1"
    assert "has no 'layers.0.w_q'" in json.loads(out)["message"]
    assert err.count("\n") == 1


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_both_engines_list_the_same(
    engine: str, induction: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ran(capsys, induction, "--text", TEXT, "--engine", engine, "--dtype", "float32")
    assert fields["settings"]["engine"] == engine
    tops = [row["top"][0]["token"] for row in fields["rows"]]
    assert tops == ["a", "a", "b", "c", "a", "b", "c", "b"]
