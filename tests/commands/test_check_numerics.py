"""attn check numerics on the command line: exit codes, the screen, JSON, errors."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.commands.main import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_inputs"
OVERFLOW = str(SAMPLES / "float16_overflow.npz")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code and what is printed; it must say nothing on stderr."""
    code = main(["check", "numerics", *arguments])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


def fields(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    got, out = run(capsys, *arguments, "--json")
    assert got == code
    result = json.loads(out)
    assert result["schema"] == "attn.check.numerics/1"
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["check", "numerics", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("attn: ")
    assert "Traceback" not in captured.err
    return captured.err


def codes(result: Any) -> set[str]:
    return {finding["code"] for finding in result["findings"]}


def saved(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def test_unit_vectors_are_sound_with_the_scale_and_saturated_without(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = fields(capsys, "--shape", "1,8,64,64")
    scores, scaled = result["saturation"][0]["spreads"]
    for spread, unit in ((scores, 8), (scaled, 1)):
        off = abs(spread["deviation"]["value"] - unit)
        assert off < 4 * spread["deviation"]["error"]
        assert spread["unit"] == unit
    own, bare = result["saturation"][0]["scales"]
    assert (own["given"], own["saturated"]["value"]) == (True, 0)
    assert abs(bare["saturated"]["value"] - 0.20) < 4 * bare["saturated"]["error"]
    assert result["failed"] == []
    result = fields(capsys, "--shape", "1,8,64,64", "--scale", "none", code=1)
    assert result["failed"] == ["saturated"]
    assert "saturated" in codes(result)


def test_the_threshold_and_what_is_allowed_decide(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ("--shape", "1,4,64,64", "--scale", "none")
    assert run(capsys, *shape)[0] == 1
    code, out = run(capsys, *shape, "--saturated", "0.5")
    assert code == 0
    assert (
        out.splitlines()[-1] == "✓ sound: nothing fails  rows above 0.99: at most 50% (--saturated)"
    )
    code, out = run(capsys, *shape, "--allow", "saturated")
    assert code == 0
    assert out.splitlines()[-1].endswith("at most 5% (--saturated), allowed: saturated")
    result = fields(capsys, *shape, "--allow", "saturated,empty-row")
    assert result["thresholds"] == {
        "saturated": 0.05,
        "max_weight": 0.99,
        "chance": 0.01,
        "allowed": ["empty-row", "saturated"],
    }


def test_a_few_rows_by_chance_do_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """One row of four: were 5% of all rows so, 1 - 0.95**4 = 19% of such samples would have one."""
    result = fields(capsys, str(SAMPLES / "apple.json"))
    (said,) = [f for f in result["findings"] if f["code"] == "saturated-few"]
    assert said["severity"] == "note"
    assert "1 of 4 rows" in said["message"]
    assert "in 19% of such samples" in said["message"]
    stricter = fields(capsys, str(SAMPLES / "apple.json"), "--saturated", "0", code=1)
    assert stricter["failed"] == ["saturated"]


def test_another_precision_is_named_only_where_it_loses_more(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    q, k, v = (normal(1, 1, 4, 8, seed=i) for i in range(3))
    q[0, 0, 1, 2] = np.nan  # lost in every precision alike
    result = fields(capsys, saved(tmp_path / "nan.npz", q=q, k=k, v=v), code=1)
    assert not {code for code in codes(result) if code.endswith("-overflow")}


def test_a_shape_takes_heads_that_share_keys_and_another_width_of_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = fields(capsys, "--shape", "1,6,5,4", "--kv-heads", "2", "--d-v", "3")
    sizes = {one["name"]: one["total"] for one in result["gradients"][0]["counts"]}
    assert sizes == {"v": 1 * 2 * 5 * 3, "q": 1 * 6 * 5 * 4, "k": 1 * 2 * 5 * 4}


def test_a_scale_that_is_given_is_not_called_missing(capsys: pytest.CaptureFixture[str]) -> None:
    result = fields(capsys, "--shape", "1,4,16,8", "--scale", "30", code=1)
    (said,) = [f["message"] for f in result["findings"] if f["code"] == "saturated"]
    assert said.endswith("Is × 30 what was meant?")


def test_overflow_of_the_files_own_precision(capsys: pytest.CaptureFixture[str]) -> None:
    """What numpy makes of the same product, in float16, is what is found."""
    with np.load(OVERFLOW) as file:
        q, k = (file[name][0].astype(np.float32) for name in ("q", "k"))
    with np.errstate(over="ignore"):
        scores = (q @ k.swapaxes(-1, -2)).astype(np.float16)
    bad = np.argwhere(np.isinf(scores))
    result = fields(capsys, OVERFLOW, code=1)
    (hunt,) = result["hunt"]
    assert (hunt["first"], hunt["dtype"]) == ("scores", "float16")
    stage = next(one for one in hunt["stages"] if one["stage"] == "scores")
    assert stage["inf"] == len(bad)
    place = stage["first"]
    assert [place[name] for name in ("head", "query", "key")] == bad[0].tolist()
    assert hunt["culprit"]["attempts"][0] == {
        "what": "scale q before the product",
        "first": None,
        "bad": 0,
        "largest": hunt["culprit"]["attempts"][0]["largest"],
    }
    assert hunt["culprit"]["attempts"][0]["largest"] < 65504
    assert {"nonfinite", "nonfinite-gradient"} <= set(result["failed"])
    message = next(f["message"] for f in result["findings"] if f["code"] == "nonfinite")
    assert "scale q before the product (tried: every stage is finite then)" in message


def test_the_screen_of_an_overflow(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, OVERFLOW)
    lines = out.splitlines()
    assert code == 1
    assert any(line.startswith("scores ✗") for line in lines)
    assert any("sum so far" in line for line in lines)
    assert "tried  scale q before the product: every stage is finite" in out
    assert lines[-1].startswith("✗ not sound: nonfinite, nonfinite-gradient")


def test_float64_hides_what_float16_would_lose(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    q, k, v = (60 * normal(1, 2, 16, 64, seed=i) for i in range(3))
    path = saved(tmp_path / "wide.npz", q=q, k=k, v=v)
    result = fields(capsys, path, "--allow", "saturated")
    assert result["hunt"][0]["first"] is None
    assert result["settings"]["dtype"] == "float64"
    assert "float16-overflow" in codes(result)
    result = fields(capsys, path, "--dtype", "float16", code=1)
    assert result["hunt"][0]["first"] == "scores"


def test_numbers_as_text_are_float64_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    result = fields(capsys, str(SAMPLES / "three_tokens.json"))
    (said,) = [f["message"] for f in result["findings"] if f["code"] == "precision"]
    assert said == (
        "looked for NaN in float64: numbers written as text have no precision: choose with --dtype"
    )
    result = fields(capsys, str(SAMPLES / "bfloat16.safetensors"))
    assert result["settings"]["dtype"] == "bfloat16"


@pytest.mark.parametrize(("seen", "fails"), [(True, "nonfinite"), (False, "hidden-nonfinite")])
def test_nan_in_a_value(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, seen: bool, fails: str
) -> None:
    q, k, v = (normal(1, 2, 4, 8, seed=i).astype(np.float32) for i in range(3))
    v[0, 1, 3, 2] = np.nan
    mask = np.ones((4, 4), bool)
    mask[:, 3] = seen
    path = saved(tmp_path / "nan.npz", q=q, k=k, v=v, mask=mask)
    result = fields(capsys, path, code=1)
    assert fails in result["failed"]
    first = result["hunt"][0]["stages"][0]
    assert (first["stage"], first["nan"], first["hidden"]) == ("inputs", seen, not seen)
    if seen:
        assert first["words"] == "v, head 1, key 3, feature 2"
    else:
        assert fields(capsys, path, "--allow", "hidden-nonfinite")["failed"] == []


def test_a_row_that_sees_no_key_fails_unless_it_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sample = str(SAMPLES / "empty_row.json")
    result = fields(capsys, sample, code=1)
    assert result["failed"] == ["empty-row"]
    assert result["hunt"][0]["empty_rows"] >= 1
    assert fields(capsys, sample, "--allow", "empty-row")["failed"] == []


def test_a_saved_trace_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "trace.safetensors")
    sample = (str(SAMPLES / "gqa.npz"), "--causal", "--align", "lower-right")
    assert main(["run", *sample, "--save", path]) == 0
    capsys.readouterr()
    own = fields(capsys, *sample)
    again = fields(capsys, path)
    assert own["saturation"][0]["scales"] == again["saturation"][0]["scales"]


MODEL = str(SAMPLES / "induction.safetensors")


def test_a_model_is_looked_at_layer_by_layer(capsys: pytest.CaptureFixture[str]) -> None:
    result = fields(capsys, MODEL, "--text", "a b c a", code=1)
    assert [hunt["layer"] for hunt in result["hunt"]] == [0, 1]
    assert result["failed"] == ["saturated"]  # it copies, as it should
    assert {f["where"]["layer"] for f in result["findings"] if f["code"] == "saturated"} == {0, 1}
    stages = [stage["stage"] for stage in result["hunt"][1]["stages"]]
    assert stages[-1] == "logits"
    narrowed = fields(capsys, MODEL, "--text", "a b c a", "--layer", "1", code=1)
    assert [hunt["layer"] for hunt in narrowed["hunt"]] == [1]
    assert narrowed["findings"] == result["findings"]
    code, out = run(capsys, MODEL, "--text", "a b c a", "--layer", "1")
    assert code == 1
    assert "layer 1" in out.splitlines()
    assert "layer 0" not in out.splitlines()


def test_what_breaks_in_one_layer_is_carried_into_the_next(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    with safe_open(MODEL, "numpy") as file:
        metadata = file.metadata()
    arrays = load_file(MODEL)
    arrays["layers.0.w_v"] = (arrays["layers.0.w_v"] * 60_000).astype(arrays["layers.0.w_v"].dtype)
    arrays["layers.0.w_o"] = arrays["layers.0.w_o"] * 100
    path = str(tmp_path / "broken.safetensors")
    save_file(arrays, path, metadata=metadata)
    result = fields(capsys, path, "--text", "a b c a", "--dtype", "float16", code=1)
    first, second = result["hunt"]
    assert first["first"] == first["culprit"]["stage"] == "output"
    assert second["culprit"]["cause"] == "carried"


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(SAMPLES / "apple.json")
    assert "no INPUT was given" in refused(capsys)
    assert "both given" in refused(capsys, sample, "--shape", "1,2,3,4")
    assert "expected batch,heads,length,d_k" in refused(capsys, "--shape", "1,2,3")
    assert "--layout is of a file" in refused(capsys, "--shape", "1,2,3,4", "--layout", "blhd")
    assert "no precision 'float61'" in refused(capsys, sample, "--dtype", "float61")
    assert "from 0 to 1" in refused(capsys, sample, "--saturated", "2")
    assert "no finding 'nan'" in refused(capsys, sample, "--allow", "nan")
    assert "--text is what a model reads" in refused(capsys, sample, "--text", "a")
    assert "there is no layer 1" in refused(capsys, sample, "--layer", "1")
    assert "needs a text" in refused(capsys, MODEL)


def test_an_error_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "numerics", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)
    assert error["schema"] == "attn.error/1"


def test_plain_letters_are_enough() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "attn_cli", "check", "numerics", OVERFLOW],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert done.stderr == b""
    text = done.stdout.decode("ascii")
    assert "\\u" not in text
    assert "\\x" not in text
    assert "\nx not sound: nonfinite, nonfinite-gradient, saturated" in text


def test_figures_that_json_has_no_word_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One key a row: nothing has a choice, so there is no share and no gradient."""
    q, k, v = (normal(1, 1, n, 4, seed=n) for n in (3, 1, 1))
    result = fields(capsys, saved(tmp_path / "one.npz", q=q, k=k, v=v))
    (own, _) = result["saturation"][0]["scales"]
    assert own["rows"] == 0
    assert own["saturated"] == {"value": None, "error": None}
    assert not math.isnan(result["saturation"][0]["spreads"][0]["mean"]["value"])
