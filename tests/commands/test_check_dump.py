"""attn check dump, as it is called: exit codes, screens, JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.commands.main import main
from tests.unit.workflows.mistaken import CAUSAL, MASK, B, D, L, attention, softmax

# What one tutorial prints: weights of three tokens, and outputs that are not these weights · v.
PRINTED = {
    "v": [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]],
    "weights": [[0.266, 0.146, 0.587], [0.146, 0.266, 0.587], [0.212, 0.212, 0.576]],
    "output": [
        [0.96714, 0.733, 0.266, 0.146],
        [0.733, 0.853, 0.146, 0.266],
        [0.788, 0.788, 0.212, 0.212],
    ],
}


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["check", "dump", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = called(capsys, *arguments, "--json")
    fields: dict[str, Any] = json.loads(out)
    return code, fields


def npz(path: Path, stages: dict[str, Any]) -> str:
    np.savez(path, **stages)
    return str(path)


def printed(path: Path, **more: Any) -> str:
    path.write_text(json.dumps({**PRINTED, **more}))
    return str(path)


def test_printed_weights_and_outputs_part_at_the_context(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, fields = as_json(capsys, printed(tmp_path / "t.json"))
    assert code == 1
    assert fields["schema"] == "attn.check.dump/1"
    assert fields["first_inconsistent"] == "context"
    assert fields["mistakes"] == []
    assert fields["unexplained"] == ["context"]
    context = fields["stages"][-1]
    assert (context["name"], context["verdict"]) == ("output", "inconsistent")
    assert context["made_from"] == ["v", "weights"]
    assert context["where"] == {"batch": 0, "head": 0, "query": 0, "d_v": 0}
    np.testing.assert_allclose(context["max_abs"], 0.11414, atol=1e-9)
    assert context["budget"] < 0.005
    np.testing.assert_allclose(context["values"]["made"], 0.853)


def test_printed_weights_part_first_where_q_and_k_are_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = printed(tmp_path / "t.json", q=PRINTED["v"], k=PRINTED["v"])
    code, fields = as_json(capsys, path)
    assert (code, fields["first_inconsistent"]) == (1, "weights")
    assert fields["coverage"]["checked"] == ["weights", "context"]


def test_what_is_printed_right_is_not_accused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    v = np.array(PRINTED["v"], float)
    weights = softmax(v @ v.T / 2)
    right = {"q": v.tolist(), "k": v.tolist(), "weights": weights.round(3).tolist()}
    path = printed(tmp_path / "t.json", **right, output=(weights @ v).round(3).tolist())
    code, out, _ = called(capsys, path)
    assert code == 0
    assert out.splitlines()[-1] == "✓ 2 stages recomputed, and each follows from what is before it"


def test_the_mistake_is_the_last_thing_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stages = attention(seen=CAUSAL, normalising=lambda s: softmax(s, -2))
    path = npz(tmp_path / "a.npz", stages)
    code, out, err = called(capsys, path, "--causal")
    assert (code, err) == (1, "")
    last = " ".join(out.split("✗")[-1].split())
    assert last.startswith("weights do not follow from masked; worst at batch ")
    assert last.endswith("softmax runs over the queries (softmax_over_queries)")
    assert "softmax(dim=-1)" in out


def test_json_names_mistakes_alternatives_and_coverage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stages = attention(scale=1 / D)
    held = {name: stages[name] for name in ("q", "k", "v", "weights")}
    code, fields = as_json(capsys, npz(tmp_path / "a.npz", held), "--layout", "bhld")
    assert code == 1
    assert fields["verdict"] == "inconsistent"
    (mistake,), (other,) = fields["mistakes"], fields["alternatives"]
    assert {mistake["code"], other["code"]} == {"scale_by_dk", "scale_applied_twice"}
    assert mistake["evidence"]
    assert mistake["fix"]
    assert other["tell_apart"]
    assert fields["coverage"] == {
        "checked": ["weights"],
        "given": ["q", "k", "v"],
        "not_checked": {},
        "total": 4,
    }
    assert [stage["verdict"] for stage in fields["stages"]] == ["given"] * 3 + ["inconsistent"]


def test_names_and_tolerances_are_taken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    stages = attention()
    held = {"q": stages["q"], "k": stages["k"], "dots": stages["scores"], "p": stages["weights"]}
    held["p"] = held["p"] + np.float32(1e-3)
    path = npz(tmp_path / "a.npz", held)
    names = ("--map", "dots=scores,p=weights")
    assert as_json(capsys, path, *names)[1]["first_inconsistent"] == "weights"
    code, fields = as_json(capsys, path, *names, "--atol", "0.01")
    assert (code, fields["verdict"]) == (0, "consistent")
    assert fields["tolerance"] == "0.01 + 0 · |recomputed|"


def test_an_order_of_axes_that_only_the_numbers_tell_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stages = attention()
    held = {name: stages[name].swapaxes(1, 2) for name in ("q", "k", "v", "context")}
    code, out, _ = called(capsys, npz(tmp_path / "a.npz", held))
    assert code == 0
    assert "with blhd everything follows" in out
    held["context"] = held["context"] * 2
    code, _, err = called(capsys, npz(tmp_path / "a.npz", held))
    assert code == 2
    assert "--layout" in err


def test_an_output_that_may_be_projected_is_not_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stages = attention()
    flat = stages.pop("context").transpose(0, 2, 1, 3).reshape(B, L, -1)
    matrix = np.random.default_rng(1).normal(size=(flat.shape[-1],) * 2).astype("float32")
    path = npz(tmp_path / "a.npz", {**stages, "output": flat @ matrix})
    code, fields = as_json(capsys, path)
    assert code == 0
    assert "projection" in fields["coverage"]["not_checked"]["merged"]


def test_a_file_that_attn_saved_is_whole_and_a_spoiled_one_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    apple = str(Path(__file__).parents[2] / "sample_inputs" / "apple.json")
    saved = tmp_path / "a.npz"
    layer = (
        "--causal",
        "--heads",
        "1",
        "--init",
        "xavier",
        "--positions",
        "rope",
        "--d-k",
        "6",
        "--d-v",
        "6",
    )
    assert main(["run", apple, *layer, "--save", str(saved)]) == 0
    capsys.readouterr()
    code, fields = as_json(capsys, str(saved))
    assert (code, len(fields["coverage"]["checked"])) == (0, 13)
    held = dict(np.load(saved))
    kept = {
        name: array
        for name, array in held.items()
        if name not in ("q_rotated", "k_rotated", "scores", "scaled", "masked", "lse")
    }
    scores = held["q_rotated"] @ held["k"].swapaxes(-1, -2) / np.sqrt(6)
    weights = softmax(np.where(np.tri(3, dtype=bool), scores, -np.inf))
    kept |= {"weights": weights, "context": weights @ held["v"]}
    kept |= {"merged": kept["context"][:, 0], "output": kept["context"][:, 0] @ held["W_o"]}
    code, fields = as_json(capsys, npz(tmp_path / "b.npz", kept))
    assert (code, fields["first_inconsistent"]) == (1, "weights")
    assert [mistake["code"] for mistake in fields["mistakes"]] == ["rope_query_only"]


@pytest.mark.parametrize(
    "stages, code, words",
    [
        ({"q": np.ones((1, 2, 3, 4)), "k": np.ones((1, 2, 3, 4))}, 3, "nothing is decided"),
        ({"loss": np.ones(3)}, 2, "no array has the name of a stage"),
        ({"weights": np.array(["a", "b"])}, 2, "no arrays of numbers"),
        ({"weights": np.ones((2, 3, 4)), "v": np.ones((5, 7))}, 2, "do not fit together"),
    ],
)
def test_what_cannot_be_checked(
    stages: dict[str, Any],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    got, out, err = called(capsys, npz(tmp_path / "a.npz", stages))
    assert got == code
    assert words in out + err


def test_arguments_that_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", attention())
    assert called(capsys, str(tmp_path / "none.npz"))[0] == 2
    code, _, err = called(capsys, path, "--map", "nothing=weights")
    assert (code, "'nothing'" in err) == (2, True)
    assert called(capsys, path, "--atol", "-1")[0] == 2
    assert called(capsys, path, "--computed", "bf16")[0] == 2


def test_diff_names_the_mistake_of_the_side_at_fault(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    right = npz(tmp_path / "a.npz", {**attention(seen=MASK), "mask": MASK})
    inverted = {name: a for name, a in attention(seen=~MASK).items() if name != "masked"}
    wrong = npz(tmp_path / "b.npz", inverted)
    code = main(["diff", right, wrong])
    last = " ".join(capsys.readouterr().out.split("✗")[-1].split())
    assert code == 1
    assert "the fault is right's own in weights; hidden and visible are exchanged" in last
    main(["diff", right, wrong, "--json"])
    fields = json.loads(capsys.readouterr().out)
    assert [m["code"] for m in fields["mistakes"]["right"]["mistakes"]] == [
        "mask_polarity_inverted"
    ]
    assert "left" not in fields["mistakes"]
    assert main(["diff", right, right, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mistakes"] == {}
