"""attn run in tiles: everything that is told of a run is what numpy's dense run tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attn_cli.core.results import RunResult
from attn_cli.errors import AttnError, UnsupportedError
from attn_cli.formats import read
from attn_cli.workflows import again, room, views
from attn_cli.workflows.run import DEFAULT_PARTS
from tests.unit.workflows.tiled_runs import run_on, saved

MASKS = [("causal",), ("window(7)", "~window(1)"), ()]


def both(path: Path, masks: tuple[str, ...], **more: object) -> tuple[RunResult, RunResult]:
    dense = run_on(path, "numpy", masks=masks, **more)
    return dense, run_on(path, "tiled", masks=masks, block=16, **more)


@pytest.mark.parametrize("masks", MASKS)
def test_rows_heads_and_findings_are_those_of_the_dense_run(
    tmp_path: Path, masks: tuple[str, ...]
) -> None:
    dense, tiled = both(saved(tmp_path), masks, parts=frozenset({"json"}))
    assert len(dense.rows) == len(tiled.rows) == 120
    for left, right in zip(dense.rows, tiled.rows, strict=True):
        assert (left.batch, left.head, left.query) == (right.batch, right.head, right.query)
        assert [top.key for top in left.top] == [top.key for top in right.top]
        mine, theirs = ([top.weight for top in row.top] for row in (left, right))
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
        mine, theirs = (list(row.numbers.values()) for row in (left, right))
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
        assert left.empty == right.empty
    for one, other in zip(dense.heads, tiled.heads, strict=True):
        mine, theirs = (list(head.means.values()) for head in (one, other))
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)
        assert one.empty_rows == other.empty_rows
        assert np.isnan(other.mean_cosine)  # it takes whole rows of all heads
    kept = [f for f in tiled.findings if f.code != "not-shown"]
    assert [f.code for f in kept] == [f.code for f in dense.findings]
    assert dense.fine == tiled.fine


def test_what_stands_in_an_empty_row_is_said(tmp_path: Path) -> None:
    result = run_on(saved(tmp_path), "tiled", masks=("causal & ~window(1)",))
    (said,) = [f for f in result.findings if f.code == "empty-row"]
    assert said.message == "2 rows see no key, so the output is 0 there: every head, query 0"


def test_the_weights_of_chosen_rows_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attn_cli.checks.torch_again.AT_ONCE", 100)  # a row at a time
    names = ("masked", "weights", "output")
    dense, tiled = both(
        saved(tmp_path), ("causal",), heads_shown=(1,), values=names, queries_shown=(3, 4, 59)
    )
    for name in names:
        assert dense.values[name].axes == tiled.values[name].axes
        np.testing.assert_allclose(
            tiled.values[name].array, dense.values[name].array, rtol=1e-12, atol=1e-14
        )
    assert "made-again" in [f.code for f in tiled.findings]


def test_too_many_rows_are_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "MOST", 7199)
    with pytest.raises(UnsupportedError, match="weights of 120 rows has 7,200 numbers") as refused:
        run_on(saved(tmp_path), "tiled", values=("weights",))
    assert "--query" in refused.value.hint


@pytest.mark.parametrize("length", [20, 60])
def test_the_pictures_are_those_of_the_dense_run(tmp_path: Path, length: int) -> None:
    dense, tiled = both(saved(tmp_path, length=length), ("causal",))
    for left, right in zip(dense.views, tiled.views, strict=True):
        np.testing.assert_allclose(left.cells, right.cells, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(left.hidden, right.hidden)
        np.testing.assert_allclose(left.sums, right.sums, rtol=1e-12)
        assert (left.query_ranges, left.key_ranges) == (right.query_ranges, right.key_ranges)
        assert right.looked_at == 0


def test_a_picture_of_a_long_run_is_of_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "SAMPLE", 1)
    dense, tiled = both(saved(tmp_path, length=200), ())
    for left, right in zip(dense.views, tiled.views, strict=True):
        assert right.looked_at == 2
        np.testing.assert_allclose(right.cells.sum(), left.cells.sum(), rtol=0.02)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_what_is_saved_is_read_again_and_has_every_row(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"trace{suffix}"
    first = run_on(saved(tmp_path), "tiled", masks=("window(9)",), save=str(target))
    dump = read(str(target))
    assert "weights" not in dump.arrays
    assert "mask" not in dump.arrays
    assert dump.settings["mask"] == "window(9)"
    for name, values in first.trace.stats.items():
        np.testing.assert_array_equal(dump.arrays[f"rows.{name}"], values, err_msg=name)
    second = run_on(target, "tiled", masks=())
    assert "ignored-arrays" not in [f.code for f in second.findings]
    np.testing.assert_array_equal(second.trace.lse, first.trace.lse)
    np.testing.assert_array_equal(second.trace.stats["entropy"], first.trace.stats["entropy"])


def test_a_mask_of_the_file_is_saved_as_it_came(tmp_path: Path) -> None:
    rng, path, target = np.random.default_rng(1), tmp_path / "m.npz", tmp_path / "t.npz"
    keep = rng.random((1, 1, 6, 6)) < 0.6
    q, k, v = rng.normal(size=(3, 1, 2, 6, 4))
    np.savez(path, q=q, k=k, v=v, mask=keep)
    first = run_on(path, "tiled", save=str(target))
    np.testing.assert_array_equal(read(str(target)).arrays["mask"], keep)
    second = run_on(target, "tiled", masks=())
    np.testing.assert_array_equal(
        second.trace.stats["visible_keys"], first.trace.stats["visible_keys"]
    )


def test_nothing_holds_queries_times_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole mask is never evaluated, whatever is shown."""

    def dense(*_: object, **__: object) -> None:
        raise AssertionError("the whole mask was made")

    for name in ("visible", "counted", "keep", "added", "biased_by"):
        monkeypatch.setattr(f"attn_cli.core.inputs.AttentionInputs.{name}", dense)
    path = saved(tmp_path)
    shown = run_on(path, "tiled", parts=DEFAULT_PARTS, save=str(tmp_path / "s.npz"))
    assert shown.views
    assert run_on(path, "tiled", parts=frozenset({"json"})).rows


def test_nan_that_nobody_sees_and_nan_that_somebody_does(tmp_path: Path) -> None:
    path = saved(tmp_path)
    arrays = dict(np.load(path))
    arrays["v"][0, 0, 50] = np.nan
    np.savez(path, **arrays)
    for masks in (("causal",), ("padding(50)",)):
        dense, tiled = both(path, masks)
        told = [[f for f in run.findings if f.severity != "note"] for run in (dense, tiled)]
        assert [f.message for f in told[0]] == [f.message for f in told[1]]
        assert told[0]


def test_a_dense_engine_that_has_no_room_names_the_one_that_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, length=3000)
    monkeypatch.setattr(room, "available_bytes", lambda: 300 << 20)
    with pytest.raises(AttnError, match=r"numpy: 2 × 3,000 × 3,000 scores need about 1\.2 G"):
        run_on(path, "numpy")
    with pytest.raises(AttnError) as refused:
        run_on(path, "torch", save=str(tmp_path / "s.npz"))
    assert refused.value.hint.startswith("--engine tiled takes about ")
    assert "MiB" in refused.value.hint
    monkeypatch.setattr(room, "available_bytes", lambda: 1000)
    with pytest.raises(AttnError, match="engine tiled takes about"):
        run_on(path, "tiled")
    with pytest.raises(AttnError) as none:
        run_on(path, "numpy")
    assert none.value.hint.startswith("even --engine tiled takes about")


def test_a_block_is_for_tiles_alone(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(UnsupportedError, match="numpy does not work in tiles") as refused:
        run_on(path, "numpy", block=16)
    assert refused.value.hint == "use --engine tiled"
    with pytest.raises(AttnError, match="--block is 0: expected a positive number"):
        run_on(path, "tiled", block=0)


def test_progress_is_in_rows(tmp_path: Path) -> None:
    from attn_cli.workflows.run import RunOptions, run_file

    told: list[tuple[int, int]] = []
    options = RunOptions(engine="tiled", block=16)
    run_file(str(saved(tmp_path)), options, progress=lambda *now: told.append(now))
    assert told[0] == (0, 120)
    assert told[-1] == (120, 120)
    assert told == sorted(told)
    assert replace(options).ranks is None
