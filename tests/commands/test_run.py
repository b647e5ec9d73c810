"""attn run: every option reaches the workflow, and its result reaches the screen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from attn_cli.commands.main import main
from attn_cli.core.settings import Choices
from attn_cli.errors import ExitCode
from attn_cli.workflows import run as workflow
from attn_cli.workflows.run import RunOptions

Capture = pytest.CaptureFixture[str]


class Stop(Exception):
    """Raised in place of a run, with what it was asked for."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(source: str, options: RunOptions, **_: object) -> None:
        raise Stop(source, options)

    monkeypatch.setattr(workflow, "run_file", stop)


def options_of(*arguments: str) -> RunOptions:
    """What `attn run ARGUMENTS` asks the workflow for."""
    with pytest.raises(Stop) as stopped:
        main(["run", "x.npz", *arguments])
    source, options = stopped.value.args
    assert source == "x.npz"
    assert isinstance(options, RunOptions)
    return options


@pytest.mark.usefixtures("asked")
def test_nothing_is_chosen_by_itself() -> None:
    assert options_of() == RunOptions()


@pytest.mark.usefixtures("asked")
def test_every_choice_arrives() -> None:
    given = "--heads 4 --kv-heads 2 --scale 0.5 --softcap 30 --align upper-left --layout blhd"
    masks = ["--mask", "window(3)", "--mask", "sink(1)", "--causal"]
    reading = ["--mask-means", "hidden", "--mask-axes", "batch,key"]
    assert options_of(*given.split(), *masks, *reading).choices == Choices(
        heads=4,
        kv_heads=2,
        scale=0.5,
        softcap=30.0,
        masks=("window(3)", "sink(1)", "causal"),
        align="upper-left",
        layout="blhd",
        mask_means="hidden",
        mask_axes="batch,key",
    )


@pytest.mark.usefixtures("asked")
def test_how_and_where_to_compute_arrives() -> None:
    given = "--engine torch --dtype bfloat16 --device cuda --context c.npy --save s.npz --force"
    options = options_of(*given.split(), "--rows", "all")
    assert (options.engine, options.dtype, options.device) == ("torch", "bfloat16", "cuda")
    assert (options.context, options.save, options.force) == ("c.npy", "s.npz", True)
    assert options.all_rows


@pytest.mark.usefixtures("asked")
def test_what_is_shown_arrives() -> None:
    options = options_of("--head", "0,2-3", "--query", "1", "--item", "0-1", "--values", "output")
    assert (options.heads_shown, options.queries_shown) == ((0, 2, 3), (1,))
    assert options.items_shown == (0, 1)
    assert options.values == ("output",)
    assert options.parts == workflow.DEFAULT_PARTS | {"values"}


@pytest.mark.usefixtures("asked")
def test_only_what_is_shown_is_made() -> None:
    assert options_of("--show", "rows,findings").parts == {"rows", "findings"}
    assert options_of("--json", "--values", "weights").parts == {"json"}


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--show", "wieghts"], "there is no part 'wieghts'"),
        (["--values", "weight"], "there is no stage 'weight'"),
        (["--show", "values"], "--show values needs to know of which stages"),
        (["--head", "x"], "--head has 'x'"),
        (["--scale", "x"], "--scale is 'x'"),
    ],
)
def test_wrong_choices_are_refused_before_anything_is_read(
    arguments: list[str], words: str, capsys: Capture
) -> None:
    assert main(["run", "missing.json", *arguments]) == ExitCode.CANNOT_RUN
    assert words in capsys.readouterr().err


def test_screen_of_a_sample(samples: Path, capsys: Capture) -> None:
    assert main(["run", str(samples / "apple.json")]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert "苹果        0.133 0.570 0.297  1.000000" in out
    assert err == ""


def test_parts_of_the_screen(samples: Path, capsys: Capture) -> None:
    assert main(["run", str(samples / "apple.json"), "--show", "rows"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "entropy/nat" in out
    assert "query ╲ key" not in out
    assert "no-projections" not in out


def test_bits_change_the_screen_and_not_the_json(samples: Path, capsys: Capture) -> None:
    source = str(samples / "three_tokens.json")
    main(["run", source, "--bits"])
    assert "entropy/bit" in capsys.readouterr().out
    main(["run", source, "--bits", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    np.testing.assert_allclose(
        [row["entropy"] for row in rows], [1.02019, 1.02019, 1.06845], atol=1e-5
    )


def test_json_is_all_there_is_on_stdout(samples: Path, capsys: Capture) -> None:
    source = str(samples / "three_tokens.json")
    assert main(["run", source, "--json", "--values", "weights,output"]) == ExitCode.OK
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert err == ""
    assert list(said) == [
        *("schema", "input", "settings", "shapes", "rows", "heads", "findings", "values")
    ]
    assert said["schema"] == "attn.run/1"
    np.testing.assert_allclose(
        said["values"]["output"][0],
        [
            [0.81368, 0.49352, 0.50648, 0.18632],
            [0.49352, 0.81368, 0.18632, 0.50648],
            [0.72593, 0.72593, 0.27407, 0.27407],
        ],
        atol=5e-6,
    )


def test_values_on_the_screen(samples: Path, capsys: Capture) -> None:
    source = str(samples / "three_tokens.json")
    assert main(["run", source, "--values", "output", "--show", "values"]) == ExitCode.OK
    assert "0.81368  0.49352  0.50648  0.18632" in capsys.readouterr().out


@pytest.mark.parametrize(
    "sample, fail_on, code",
    [
        ("apple.json", "warning", ExitCode.DIFFERS),
        ("apple.json", "error", ExitCode.OK),
        ("three_tokens.json", "warning", ExitCode.OK),
    ],
)
def test_fail_on(sample: str, fail_on: str, code: int, samples: Path) -> None:
    assert main(["run", str(samples / sample), "--fail-on", fail_on]) == code


def test_fail_on_error(tmp_path: Path) -> None:
    np.save(tmp_path / "nan.npy", [[1.0, np.nan], [0.5, 2.0]])
    assert main(["run", str(tmp_path / "nan.npy"), "--fail-on", "error"]) == ExitCode.DIFFERS
    assert main(["run", str(tmp_path / "nan.npy")]) == ExitCode.OK


def test_saving_says_what_was_written(samples: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "trace.npz"
    arguments = ["run", str(samples / "apple.json"), "--show", "heads", "--save", str(target)]
    assert main(arguments) == ExitCode.OK
    assert capsys.readouterr().err == f"Wrote {target}\n"
    assert target.exists()
    assert main(arguments) == ExitCode.CANNOT_RUN
    assert "--force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == ExitCode.OK


def test_all_rows_are_shown_where_asked(tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 4)))
    main(["run", str(tmp_path / "x.npy"), "--show", "rows"])
    assert "of 60 rows" in capsys.readouterr().out
    main(["run", str(tmp_path / "x.npy"), "--show", "rows", "--rows", "all"])
    out = capsys.readouterr().out
    assert "of 60 rows" not in out
    assert len(out.splitlines()) > 60


@pytest.mark.parametrize("kind", ["masks", "engines", "statistics", "formats", "stages"])
def test_lists_need_no_input(kind: str, capsys: Capture) -> None:
    assert main(["run", "--list", kind]) == ExitCode.OK
    screen = capsys.readouterr().out
    assert main(["run", "--list", kind, "--json"]) == ExitCode.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["kind"]) == ("attn.list/1", kind)
    for entry in said["entries"]:
        assert entry["name"] in screen
        assert entry["meaning"]


def test_an_unknown_list(capsys: Capture) -> None:
    assert main(["run", "--list", "mask"]) == ExitCode.CANNOT_RUN
    assert "did you mean 'masks'?" in capsys.readouterr().err
