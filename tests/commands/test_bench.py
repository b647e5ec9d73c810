"""attn bench on the command line: exit codes, what is printed where, errors, the plot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attn_cli.commands.main import main
from attn_cli.core.results_bench import BenchResult
from attn_cli.workflows.bench_options import BenchOptions
from tests.unit.render.test_bench import result


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[BenchOptions]:
    """What was asked to be measured; nothing is, the answer is given."""
    asked: list[BenchOptions] = []

    def measure(options: BenchOptions, **_: Any) -> BenchResult:
        asked.append(options)
        return result()

    monkeypatch.setattr("attn_cli.workflows.bench.bench", measure)
    return asked


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The words of a refusal: exit code 2, nothing on stdout, no traceback."""
    assert main(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("attn: ")
    return captured.err


def test_a_real_one_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ["--lengths", "8,16", "--heads", "2", "--d-k", "4", "--repeats", "2", "--threads", "1"]
    assert main(["bench", "--engines", "numpy", "--causal", *tiny, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    told = json.loads(captured.out)
    assert set(told) == {
        "schema", "settings", "threads", "versions", "device_name", "spread", "memory", "complete",
        "results", "growth", "findings",
    }  # fmt: skip
    assert told["schema"] == "attn.bench/1"
    assert (told["threads"], told["complete"]) == (1, True)
    assert set(told["versions"]) == {"attn", "python", "numpy", "torch"}
    assert [(row["length"], row["engine"]) for row in told["results"]] == [
        (8, "sdpa"), (8, "numpy"), (16, "sdpa"), (16, "numpy"),
    ]  # fmt: skip
    for row in told["results"]:
        assert set(row) == {
            "engine", "length", "median_s", "spread_s", "peak_bytes", "ratio_to_sdpa", "computes",
            "runs_s", "why", "reason",
        }  # fmt: skip
        assert row["median_s"] > 0
        assert row["spread_s"] >= 0
        assert row["ratio_to_sdpa"] > 0
        assert len(row["runs_s"]) == 2
    assert [row["exponent"] for row in told["growth"]] == [None] * 4
    assert all("a fit takes 3" in row["reason"] for row in told["growth"])


def test_arguments_arrive(measured: list[BenchOptions], capsys: pytest.CaptureFixture[str]) -> None:
    line = "--engines torch,sdpa:math --lengths 2k,512 --heads 4 --kv-heads 2 --d-k 8 --d-v 16"
    line += " --mask window(4) --causal --dtype bfloat16 --device cuda --repeats 7 --timeout 2.5"
    line += " --threads 3 --seed 9"
    assert main(["bench", *line.split()]) == 0
    assert capsys.readouterr().err == ""
    assert measured == [
        BenchOptions(
            engines=("sdpa", "torch", "sdpa:math"),
            lengths=(512, 2048),
            heads=4,
            kv_heads=2,
            d_k=8,
            d_v=16,
            masks=("window(4)", "causal"),
            dtype="bfloat16",
            device="cuda",
            repeats=7,
            timeout=2.5,
            threads=3,
            seed=9,
        )
    ]


def test_without_arguments_it_compares_the_engines(
    measured: list[BenchOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench"]) == 0
    assert measured[0].engines == ("sdpa", "numpy", "torch", "tiled")
    assert len(measured[0].lengths) >= 3  # else there are no exponents
    assert "every stage, all statistics" in capsys.readouterr().out


def test_what_was_measured_is_shown_when_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partial = replace(result(), complete=False)
    monkeypatch.setattr("attn_cli.workflows.bench.bench", lambda *_, **__: partial)
    assert main(["bench", "--json"]) == 130
    told = json.loads(capsys.readouterr().out)
    assert told["complete"] is False
    assert told["results"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engines", "spda"], "did you mean 'sdpa'?"),
        (["--engines", ""], "--engines is ''"),
        (["--lengths", "abc"], "--lengths has 'abc'"),
        (["--lengths", "0"], "--lengths has 0: expected 1 to 16,777,216"),
        (["--lengths", "-5"], "--lengths has '-5'"),
        (["--lengths", "99999999k"], "--lengths has 99999999k"),
        (["--dtype", "float8"], "no precision 'float8'"),
        (["--mask", "caussal"], "did you mean 'causal'?"),
        (["--heads", "x"], "--heads"),
        (["--kv-heads", "3"], "multiple"),
        (["--plot", "costs.jpg"], ".png and .svg"),
        (["--plot", "nowhere/costs.png"], "its folder does not exist"),
    ],
)
def test_wrong_arguments_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    text = refused(capsys, *arguments)
    assert said in text
    assert text.count("\n") <= 2


def test_engines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    assert "sdpa:flash" in capsys.readouterr().out


def test_the_plot_is_written_once(
    measured: list[BenchOptions], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "costs.SVG"
    assert main(["bench", "--plot", str(path)]) == 0
    assert capsys.readouterr().err == f"Wrote {path}\n"
    assert path.stat().st_size > 1000
    assert "already exists" in refused(capsys, "--plot", str(path))
    assert len(measured) == 1  # it was refused before anything was measured
    assert main(["bench", "--plot", str(path), "--force"]) == 0


def test_without_matplotlib_the_plot_says_what_to_install(
    measured: list[BenchOptions],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("attn_cli.workflows.bench_plot.find_spec", lambda _: None)
    text = refused(capsys, "--plot", str(tmp_path / "x.png"))
    assert 'pip install "attn-cli[plot]"' in text
    assert measured == []
