"""attn run with projections and positions: what is asked for, shown, listed, saved, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.commands.arguments import choices
from attn_cli.commands.main import main
from attn_cli.core.settings import Choices

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def apple(samples: Path) -> str:
    return str(samples / "apple.json")


@pytest.fixture
def layer(samples: Path) -> str:
    return str(samples / "layer.npz")


def ran(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """The JSON of a run that must go well."""
    assert main(["run", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == "" or err.startswith("Wrote ")
    fields: dict[str, Any] = json.loads(out)
    return fields


def refused(capsys: Capture, *arguments: str) -> str:
    """What is said of a run that cannot be."""
    assert main(["run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("attn: ")
    assert "Traceback" not in err
    return err


def test_every_option_of_the_layer_is_a_choice() -> None:
    given = {
        "weights_layout": "out-in",
        "init": "normal",
        "seed": 7,
        "d_k": 3,
        "d_v": 5,
        "positions": "rope:half",
        "rope_base": 500.0,
        "relative_bidirectional": "false",
        "max_distance": 9,
        "scale": None,
        "json": True,
    }
    assert choices(given) == Choices(
        weights_layout="out-in",
        init="normal",
        seed=7,
        d_k=3,
        d_v=5,
        positions="rope:half",
        rope_base=500.0,
        relative_bidirectional=False,
        max_distance=9,
    )
    assert choices({"relative_bidirectional": "true"}).relative_bidirectional is True
    assert choices({"causal": True, "mask": ["sink(1)"]}).masks == ("sink(1)", "causal")


def test_the_settings_of_a_layer_are_in_the_json(capsys: Capture, apple: str, layer: str) -> None:
    settings = ran(capsys, apple, "--weights", layer, "--positions", "rope")["settings"]
    assert settings["weights"] == layer
    assert settings["weights_layout"] == "out-in"
    assert (settings["init"], settings["seed"]) == (None, None)
    assert (settings["positions"], settings["rope_base"]) == ("rope:half", 10_000.0)
    assert (settings["relative_bidirectional"], settings["max_distance"]) == (None, None)
    drawn = ran(capsys, apple, "--init", "xavier")["settings"]
    assert (drawn["init"], drawn["seed"]) == ("xavier", 0)
    assert (drawn["weights"], drawn["weights_layout"]) == (None, None)


def test_the_head_of_the_screen_says_where_the_layer_came_from(
    capsys: Capture, apple: str, layer: str
) -> None:
    assert main(["run", apple, "--weights", layer, "--positions", "rope", "--show", "shapes"]) == 0
    head = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert f"2 heads of 6 · d_v 5 projections {layer} · positions rope:half base 10000" in head
    assert main(["run", apple, "--init", "normal", "--seed", "4", "--show", "shapes"]) == 0
    head = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert "projections drawn, normal, seed 4" in head


def test_the_shape_trace_runs_from_x_to_output(capsys: Capture, apple: str, layer: str) -> None:
    result = ran(capsys, apple, "--weights", layer, "--positions", "rope")
    lines = [(step["stage"], step["formula"], step["shape"]) for step in result["shapes"]]
    assert lines == [
        ("x", "token vectors", [1, 3, 8]),
        ("q", "x · W_q split into heads", [1, 2, 3, 6]),
        ("k", "x · W_k split into heads", [1, 2, 3, 6]),
        ("v", "x · W_v split into heads", [1, 2, 3, 5]),
        ("q_rotated", "q turned by its positions", [1, 2, 3, 6]),
        ("k_rotated", "k turned by its positions", [1, 2, 3, 6]),
        ("scores", "q_rotated · k_rotatedᵀ", [1, 2, 3, 3]),
        ("scaled", "scores ÷ √6", [1, 2, 3, 3]),
        ("masked", "causal hides 3 of 9", [1, 2, 3, 3]),
        ("weights", "softmax over key", [1, 2, 3, 3]),
        ("context", "weights · v", [1, 2, 3, 5]),
        ("merged", "heads side by side", [1, 3, 10]),
        ("output", "merged · W_o", [1, 3, 8]),
    ]
    assert result["shapes"][-2]["axes"] == ["batch", "query", "head*d_v"]


def test_added_positions_are_a_stage(capsys: Capture, apple: str) -> None:
    result = ran(capsys, apple, "--positions", "sinusoidal", "--values", "x,x_positions")
    assert [step["formula"] for step in result["shapes"]][:3] == [
        "token vectors",
        "x + positions",
        "x_positions split into heads",
    ]
    x, moved = (np.array(result["values"][name]) for name in ("x", "x_positions"))
    np.testing.assert_allclose((moved - x)[0, 0], [0, 1] * 4, rtol=0, atol=1e-15)


def test_a_bias_by_position_is_a_stage(capsys: Capture, apple: str) -> None:
    result = ran(capsys, apple, "--positions", "alibi", "--values", "scaled,biased")
    assert "+ ALiBi" in [step["formula"] for step in result["shapes"]]
    scaled, biased = (np.array(result["values"][name]) for name in ("scaled", "biased"))
    np.testing.assert_allclose((biased - scaled)[0, 0, 2], [-0.125, -0.0625, 0], atol=1e-15)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_saved_layer_is_read_again(
    engine: str, capsys: Capture, apple: str, layer: str, tmp_path: Path
) -> None:
    saved = str(tmp_path / "run.safetensors")
    options = ["--engine", engine, "--values", "x,q,weights,output"]
    arguments = [apple, "--weights", layer, "--positions", "rope:interleaved", *options]
    first = ran(capsys, *arguments, "--save", saved)
    again = ran(capsys, saved, *options)
    assert again["values"] == first["values"]
    assert [row["token"] for row in again["rows"]] == [row["token"] for row in first["rows"]]
    assert "stages" in [finding["code"] for finding in again["findings"]]


@pytest.mark.parametrize(
    "name, acts",
    [
        ("none", "blind to the order"),
        ("sinusoidal", "added to the token vectors"),
        ("learned", "added to the token vectors"),
        ("rope", "turned by angles"),
        ("alibi", "added to the scaled scores"),
        ("relative", "T5's bias"),
    ],
)
def test_positions_are_listed_with_what_they_do(name: str, acts: str, capsys: Capture) -> None:
    assert main(["run", "--list", "positions", "--json"]) == 0
    listed = {
        entry["name"]: entry["meaning"] for entry in json.loads(capsys.readouterr().out)["entries"]
    }
    assert acts in listed[name]


def test_every_stage_is_listed(capsys: Capture) -> None:
    assert main(["run", "--list", "stages", "--json"]) == 0
    names = [entry["name"] for entry in json.loads(capsys.readouterr().out)["entries"]]
    for stage in ("x_positions", "q_rotated", "k_rotated", "output"):
        assert stage in names


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--init", "glorot"], "glorot"),
        (["--init", "xavier", "--seed", "-1"], "--seed is -1"),
        (["--init", "xavier", "--heads", "3"], "d_model 8 does not split into 3 heads"),
        (["--positions", "rotary"], "there is no position scheme 'rotary'"),
        (["--positions", "learned"], "no file brings its table"),
        (["--positions", "rope", "--heads", "8"], "d_k is 1, expected an even number"),
        (["--weights", "missing.npz"], "missing.npz: no such file"),
        (["--weights-layout", "in-out"], "there are none"),
        (["--d-k", "4"], "there are no projections"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    arguments: list[str], words: str, capsys: Capture, apple: str
) -> None:
    assert words in refused(capsys, apple, *arguments)


def test_the_weights_file_is_named_once(capsys: Capture, apple: str, samples: Path) -> None:
    said = refused(capsys, apple, "--weights", str(samples / "gqa.npz"))
    assert said.count("gqa.npz") == 1
    assert "the weights hold no projections by a known name" in said
    assert "apple.json" not in said


def test_hostile_weights_end_in_one_line(capsys: Capture, apple: str, tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    for arrays in (
        {"w_q": np.zeros((0, 8)), "w_k": np.zeros((8, 8)), "w_v": np.zeros((8, 8))},
        {"w_q": np.array("text"), "w_k": np.zeros((8, 8)), "w_v": np.zeros((8, 8))},
        {"w_q": np.array(1.0), "w_k": np.zeros((8, 8)), "w_v": np.zeros((8, 8))},
        {"w_q": np.zeros((8, 8), complex), "w_k": np.zeros((8, 8)), "w_v": np.zeros((8, 8))},
        {"w_q\x1b[31m.weight": np.zeros((8, 8)), "w_k": np.zeros((8, 4)), "w_v": np.zeros((8, 8))},
    ):
        np.savez(path, **arrays)
        said = refused(capsys, apple, "--weights", str(path))
        assert "\x1b" not in said
