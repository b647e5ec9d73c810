"""What docs/dumping.md says can be done: its programs run, and attn compares what they write."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attn_cli.commands.main import main

PAGE = Path(__file__).parents[2] / "docs" / "dumping.md"
BLOCKS = re.findall(r"^## (.+?)$.*?^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
Run = Callable[[str, str], None]
PROGRAMS = {title: (language, code) for title, language, code in BLOCKS}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the program of one section, which writes into the test's folder."""
    monkeypatch.chdir(tmp_path)

    def run(title: str, needs: str) -> None:
        pytest.importorskip(needs)
        language, code = PROGRAMS[title]
        assert language == "python"
        exec(code, {"__name__": "__main__"})

    return run


def compared(
    left: Path, right: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> dict[str, dict[str, object]]:
    """The stages of the two, which must agree and have no fault."""
    code = main(["diff", str(left), str(right), *more, "--json"])
    fields = json.loads(capsys.readouterr().out)
    assert code == 0, fields
    assert [
        finding["code"] for finding in fields["findings"] if finding["severity"] != "note"
    ] == []
    stages = {stage["stage"]: stage for stage in fields["stages"]}
    assert all(stage["own_fault"] == [] for stage in stages.values())
    return stages


def test_every_section_has_its_program() -> None:
    assert set(PROGRAMS) == {"PyTorch", "JAX", "C++", "A Hugging Face model"}


def test_pytorch(written: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written("PyTorch", "torch")
    file = tmp_path / "torch.safetensors"
    stages = compared(file, file, capsys)
    assert list(stages) == ["q", "k", "v", "scores", "scaled", "masked", "weights", "context"]


def test_jax(written: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written("JAX", "jax")
    file = tmp_path / "jax.npz"
    assert len(compared(file, file, capsys, "--causal")) == 8


def test_a_hugging_face_model(
    written: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written("A Hugging Face model", "transformers")
    files = sorted(tmp_path.glob("layer*.safetensors"))
    assert [file.stem for file in files] == ["layer0", "layer1"]
    assert len(compared(files[0], files[0], capsys)) == 8


def test_cpp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    weights = np.full((1, 2, 3, 4), 0.25, np.float32)
    main_function = (
        "int main() { std::vector<float> w(24, 0.25f); "
        'save("dump/weights.npy", w.data(), {1, 2, 3, 4}); }'
    )
    (tmp_path / "a.cpp").write_text(PROGRAMS["C++"][1] + main_function)
    (tmp_path / "dump").mkdir()
    for command in ([compiler, "-std=c++17", "-o", "a.out", "a.cpp"], ["./a.out"]):
        subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "dump" / "weights.npy"), weights)
    assert list(compared(tmp_path / "dump", tmp_path / "dump", capsys)) == ["weights"]
