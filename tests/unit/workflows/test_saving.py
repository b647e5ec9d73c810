"""A saved trace is an input again: the run on it gives the same numbers, stage by stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attn_cli.core.results import RunResult
from attn_cli.core.settings import Choices
from attn_cli.core.trace import STAGES, Trace
from attn_cli.errors import InputError
from attn_cli.formats import read
from attn_cli.workflows.run import RunOptions, run_file

SUFFIXES = (".npz", ".safetensors")
SAMPLES = ("three_tokens.json", "padding.json", "empty_row.json", "gqa.npz", "decode.npz",
           "translation.json", "bfloat16.safetensors")  # fmt: skip


def traced(source: Path, choices: Choices = Choices(), **more: object) -> Trace:
    options = RunOptions(choices=choices, values=STAGES, **more)  # type: ignore[arg-type]
    result = run_file(str(source), options)
    assert isinstance(result, RunResult)
    return result.trace


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("sample", SAMPLES)
def test_the_run_on_what_was_saved_is_the_same(
    samples: Path, tmp_path: Path, sample: str, suffix: str
) -> None:
    target = tmp_path / f"trace{suffix}"
    first = traced(samples / sample, save=str(target))
    again = traced(target)
    for stage in STAGES:
        np.testing.assert_array_equal(again[stage], first[stage], err_msg=stage)
    np.testing.assert_array_equal(again.lse, first.lse)
    for name in first.stats:
        np.testing.assert_array_equal(again.stats[name], first.stats[name], err_msg=name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_options_are_saved_with_it(samples: Path, tmp_path: Path, suffix: str) -> None:
    choices = Choices(heads=2, scale=0.3, softcap=2.0, masks=("causal", "window(2)"))
    target = tmp_path / f"trace{suffix}"
    first = traced(samples / "apple.json", choices, save=str(target))
    again = traced(target)
    for stage in STAGES:
        np.testing.assert_array_equal(again[stage], first[stage], err_msg=stage)


@pytest.mark.parametrize("masks", [(), ("causal",)])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_sequences_of_one_length_stay_two(
    tmp_path: Path, suffix: str, masks: tuple[str, ...]
) -> None:
    """Their positions have no common origin, unless a mask has given them one."""
    rng, source, target = np.random.default_rng(3), tmp_path / "x.npz", tmp_path / f"t{suffix}"
    x, context = rng.normal(size=(2, 2, 3, 4))
    np.savez(source, x=x, context=context, context_lengths=[3, 2])
    first = traced(source, Choices(heads=2, masks=masks), save=str(target))
    twice = traced(target, save=str(tmp_path / f"again{suffix}"))
    for again in (twice, traced(tmp_path / f"again{suffix}")):
        for name in first.stats:
            np.testing.assert_array_equal(again.stats[name], first.stats[name], err_msg=name)
    assert np.isnan(first.stats["mean_distance"]).all() == (not masks)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_stages_are_there_with_their_axes_and_no_step_twice(
    samples: Path, tmp_path: Path, suffix: str
) -> None:
    target = tmp_path / f"trace{suffix}"
    first = traced(samples / "three_tokens.json", save=str(target))
    dump = read(str(target), stdin=None)
    assert {"x", "q", "k", "v", "scores", "scaled", "weights", "context", "lse"} <= set(dump.arrays)
    assert not {"softcapped", "biased", "masked"} & set(dump.arrays)
    assert dump.axes["weights"] == ("batch", "head", "query", "key")
    np.testing.assert_array_equal(dump.arrays["weights"], first["weights"])


def test_a_file_that_is_there_is_left_alone(samples: Path, tmp_path: Path) -> None:
    target = tmp_path / "trace.npz"
    target.write_bytes(b"mine")
    with pytest.raises(InputError, match="--force"):
        traced(samples / "three_tokens.json", save=str(target))
    assert target.read_bytes() == b"mine"
    traced(samples / "three_tokens.json", save=str(target), force=True)
    assert target.read_bytes() != b"mine"


def test_a_run_that_cannot_be_leaves_no_file(samples: Path, tmp_path: Path) -> None:
    target = tmp_path / "trace.npz"
    with pytest.raises(InputError):
        traced(samples / "apple.json", Choices(heads=3), save=str(target))
    assert list(tmp_path.iterdir()) == []
