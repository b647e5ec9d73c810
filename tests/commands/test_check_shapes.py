"""attn check shapes on the command line: exit codes, what is printed where, errors."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.commands.main import main

ROOT = Path(__file__).parents[2]
GROUPED = (
    "--batch", "2", "--seq", "6", "--d-model", "32", "--heads", "4", "--kv-heads", "2",
    "--mask", "causal & window(2)", "--dtype", "bfloat16",
)  # fmt: skip

SCREEN = """\
sizes  batch 2 · 6 queries · 6 keys · bfloat16 · d_model 32 · 4 heads of 8 on 2 key/value heads
  mask causal & window(2)

stage    how                                batch  head  query  key  width         bytes   FLOPs
x        token vectors                          2            6       d_model 32    768 B       0
q        x · W_q split into heads               2     4      6       d_k 8         768 B  24,576
k        x · W_k split into heads               2     2           6  d_k 8         384 B  12,288
v        x · W_v split into heads               2     2           6  d_v 8         384 B  12,288
scores   q · kᵀ                                 2     4      6    6                576 B   4,608
scaled   scores ÷ √8                            2     4      6    6                576 B     288
masked   causal & window(2) hides 25 of 36      2     4      6    6                576 B     288
weights  softmax over key                       2     4      6    6                576 B   1,440
context  weights · v                            2     4      6       d_v 8         768 B   4,608
merged   heads side by side                     2            6       d_model 32    768 B       0
output   merged · W_o                           2            6       d_model 32    768 B  24,576
total                                                                            6.8 KiB  84,960
visible                                                                          5.2 KiB  77,160

visible         88 of 288 pairs, 30.6%
twice as long   FLOPs × 2.26, bytes × 2.67, visible FLOPs × 2 (× 2: x, q, k, v, context, merged,
                output; × 4: scores, scaled, masked, weights)
memory wall     x, q, context, merged and output hold the most, 768 B each; from a length of 8 on
                the scores do
projections     3,072 parameters
KV cache        64 B a token; 256 B for 2 tokens × batch 2, all that is seen

✓ the shapes fit together
! a head has 8 features, fewer than 16: FlexAttention refuses it, and little can be told apart in
  so few; fewer heads make them wider: 2 of 16  thin-heads
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and a file whose keys and values are of different lengths."""
    monkeypatch.chdir(tmp_path)
    np.savez("apart.npz", q=np.ones((1, 1, 3, 16)), k=np.ones((1, 1, 4, 16)), v=np.ones((5, 16)))
    q = np.ones((1, 1, 3, 16))
    np.savez("fits.npz", q=q, k=q, v=q)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints; it must say nothing on stderr."""
    assert main(["check", "shapes", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The words of a refusal: exit code 2, nothing on stdout, no traceback."""
    assert main(["check", "shapes", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("attn: ")
    return captured.err


def fields(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    return json.loads(shown(capsys, *arguments, "--json", code=code))


def test_a_screen_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, *GROUPED) == SCREEN


def test_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    told = fields(capsys, *GROUPED)
    assert set(told) == {
        "schema", "kind", "source", "fits", "decided", "shapes", "problems", "totals", "groups",
        "layers", "checkpoint", "coverage", "says",
    }  # fmt: skip
    assert (told["schema"], told["kind"], told["fits"]) == ("attn.check.shapes/1", "sizes", True)
    assert set(told["shapes"][0]) == {
        "layer", "stage", "axes", "shape", "dtype", "formula", "bytes", "flops", "masked_bytes",
        "masked_flops",
    }  # fmt: skip
    by_stage = {row["stage"]: row for row in told["shapes"]}
    assert by_stage["scores"]["axes"] == ["batch", "head", "query", "key"]
    assert by_stage["k"]["shape"] == [2, 2, 6, 8]
    assert by_stage["scores"]["flops"] == 2 * 2 * 4 * 6 * 6 * 8
    assert by_stage["scores"]["masked_flops"] == 2 * 2 * 4 * 11 * 8
    assert by_stage["scores"]["bytes"] == 2 * 4 * 6 * 6 * 2
    assert told["totals"]["flops"] == sum(row["flops"] for row in told["shapes"])
    assert told["totals"]["visible_pairs"] == 2 * 4 * 11
    assert told["totals"]["parameters"] == 32 * (32 + 16 + 16 + 32)
    assert told["totals"]["kv_cache_bytes_per_token"] == 2 * 2 * 8 * 2
    assert told["totals"]["kv_cache_bytes"] == 2 * 2 * 8 * 2 * 2 * 2
    assert told["groups"][0]["growth"]["stages"]["scores"]["flops"] == 4
    assert told["groups"][0]["wall"]["stages"] == ["x", "q", "context", "merged", "output"]
    assert [problem["code"] for problem in told["problems"]] == ["thin-heads"]
    assert told["problems"][0]["where"]["stage"] == "scores"


def test_heads_that_do_not_divide(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--d-model", "10", "--heads", "3", code=1)
    assert "1, 2, 5 or 10 heads do" in text.replace("\n  ", " ")
    assert "the shapes fit together" not in text
    told = fields(capsys, "--d-model", "10", "--heads", "3", code=1)
    assert (told["fits"], told["shapes"], told["totals"]) == (False, [], None)
    assert told["problems"][0]["where"]["field"] == "--heads"


def test_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "headers only: no number was read" in shown(capsys, "fits.npz")
    assert "numbers of axes differ" in shown(capsys, "apart.npz", code=1)
    told = fields(capsys, "fits.npz", "--heads", "1", "--mask", "causal", "--dtype", "float16")
    assert told["totals"]["visible_pairs"] == 6
    assert told["groups"][0]["sizes"]["dtype"] == "float16"


def test_a_model(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(samples / "induction.safetensors"), "--seq", "9")
    assert "layers 0–1" in text
    assert "all 2 attention layers" in text


def folder(path: Path, model_type: str = "llama", **changed: tuple[int, ...]) -> str:
    """A checkpoint of two layers whose tensors are all zero and take no room."""
    config = {
        "model_type": model_type, "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    sizes = {"q": (64, 64), "k": (32, 64), "v": (32, 64), "o": (64, 64)} | changed
    entries, at = {}, 0
    for layer in range(2):
        for letter, (out, into) in sizes.items():
            name = f"model.layers.{layer}.self_attn.{letter}_proj.weight"
            end = at + 2 * out * into
            entries[name] = {"dtype": "BF16", "shape": [out, into], "data_offsets": [at, end]}
            at = end
    head = json.dumps(entries).encode()
    with (path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.truncate(8 + len(head) + at)
    return str(path)


def test_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, folder(tmp_path / "fits"), "--seq", "100")
    assert "layers 0–1  d_model 64 · 4 heads of 16 on 2 key/value heads" in text
    assert len(text.splitlines()) < 40
    told = fields(capsys, str(tmp_path / "fits"))
    assert told["checkpoint"]["model_type"] == "llama"
    assert {row["layer"] for row in told["shapes"]} == {0, 1}
    assert told["groups"][0]["sizes"]["queries"] == 512


def test_a_checkpoint_with_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, folder(tmp_path / "fault", k=(48, 64)), code=1)
    said = " ".join(line.strip() for line in text.splitlines() if "(48, 64)" in line)
    assert "model.layers.0.self_attn: k_proj.weight is (48, 64)" in said
    assert said.count("k_proj") == 1  # both layers in one sentence
    assert "(and 1 more layer)" in " ".join(text.split())
    told = fields(capsys, str(tmp_path / "fault"), code=1)
    wrong = [problem for problem in told["problems"] if "k_proj" in problem["message"]]
    assert [problem["where"]["layer"] for problem in wrong] == [
        "model.layers.0.self_attn", "model.layers.1.self_attn",
    ]  # fmt: skip


def test_layers_of_one_fault_are_counted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "thin")
    config = tmp_path / "thin" / "config.json"
    thinner = {"num_attention_heads": 8, "num_key_value_heads": 4}
    config.write_text(json.dumps(json.loads(config.read_text()) | thinner))
    text = " ".join(shown(capsys, path).split())
    assert "a head has 8 features" in text
    assert "(and 1 more layer) thin-heads" in text
    assert "more layers)" not in text


def test_a_checkpoint_without_tensors_is_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "alone")
    (tmp_path / "alone" / "model.safetensors").unlink()
    text = shown(capsys, path, code=3)
    assert "the shapes fit together" not in text
    assert "no tensors" in text
    (tmp_path / "alone" / "pytorch_model.bin").write_bytes(b"x")
    told = fields(capsys, path, code=3)
    assert (told["fits"], told["decided"]) == (False, False)


def test_what_certainly_does_not_fit_is_not_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "other", "a_family_of_tomorrow")
    index = {"weight_map": {"x": "model-00001-of-00001.safetensors"}}
    (tmp_path / "other" / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00001-of-00001.safetensors" in shown(capsys, path, code=1)


def test_what_can_be_read_in_two_ways_cannot_be_checked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    square = np.eye(16)
    np.savez("square.npz", x=np.ones((3, 16)), w_q=square, w_k=square, w_v=square)
    assert "pass --weights-layout" in refused(capsys, "square.npz")
    assert "fit together" in shown(capsys, "square.npz", "--weights-layout", "in-out")
    q = np.ones((1, 1, 3, 16))
    np.savez("padded.npz", q=q, k=q, v=q, padding_mask=np.ones((1, 3), bool))
    assert "pass --mask-means" in refused(capsys, "padded.npz")


def test_settings_that_are_not_read_are_said(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("aside.json").write_text('{"x": [[1, 2], [3, 4]], "heads": 2}')
    assert "not used: heads" in shown(capsys, "aside.json")
    assert any("not used: heads" in said for said in fields(capsys, "aside.json")["says"])


def test_matrices_that_would_be_drawn_cost_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"init": "default", "heads": 4096, "d_k": 1 << 20}
    Path("wide.json").write_text(json.dumps({"x": [[1, 2], [3, 4]], "settings": settings}))
    told = fields(capsys, "wide.json")
    width = 4096 << 20
    assert told["totals"]["parameters"] == 4 * 2 * width + 3 * width + 2


def test_a_file_of_a_checkpoint_is_read_by_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "fits")
    words = refused(capsys, f"{path}/model.safetensors")
    assert f"a checkpoint is read by its folder: {path}" in words


def test_an_unknown_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "other", "a_family_of_tomorrow")
    text = shown(capsys, path, code=3)
    assert "a_family_of_tomorrow" in text
    assert not fields(capsys, path, code=3)["decided"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "no sizes were given"),
        (["--d-k", "many"], "valid integer"),
        (["--d-k", "4", "--mask", "causl"], "there is no mask 'causl'"),
        (["--d-k", "4", "--layout", "blhd"], "--layout says nothing of sizes alone"),
        (["nowhere.npy"], "no such file"),
        (["fits.npz", "--batch", "2"], "--batch says nothing of a file"),
        (["fits.npz", "--positions", "rotary"], "rotary"),
        (["fits.npz", "--heads", "0"], "--heads is 0"),
        (["fits.npz", "--mask", "window()"], "window needs W"),
        (["fits.npz", "--weights", "nowhere.npz"], "no such file"),
        (["empty"], "config.json"),
        (["empty", "--heads", "2"], "--heads says nothing of a checkpoint"),
    ],
)
def test_refusals(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    Path("empty").mkdir()
    assert words in refused(capsys, *arguments)


def test_a_refusal_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "shapes", "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["schema"] == "attn.error/1"


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"junk" * 9])
def test_damaged_files(here: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    Path("bad.npy").write_bytes(content)
    assert refused(capsys, "bad.npy").startswith("attn: bad.npy: ")


def piped(*arguments: str, stdin: str = "", **environment: str) -> bytes:
    """What a fresh process writes into a pipe."""
    plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        [sys.executable, "-m", "attn_cli", "check", "shapes", *arguments],
        capture_output=True,
        input=stdin.encode(),
        env={**plain, "PYTHONPATH": str(ROOT), **environment},
        check=True,
    )
    return done.stdout


def test_an_ascii_locale() -> None:
    text = piped(*GROUPED, LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert "softmax over key" in text.decode("ascii")


def test_standard_input() -> None:
    text = piped("-", stdin='{"x": [[1, 2], [3, 4]]}').decode()
    assert text.startswith("standard input  batch 1 · 2 queries")
