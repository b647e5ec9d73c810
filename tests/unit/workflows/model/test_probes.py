"""Changed tokens: what may move, what must stay, and a leak that is found where it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.models.hf.loading import load
from attn_cli.workflows.model.findings import report_findings
from attn_cli.workflows.model.probes import reached
from attn_cli.workflows.model.probing import probed
from tests.unit.workflows.model.tiny import FOLDER, IDS, leaking, options, tiny, watched


@pytest.fixture(scope="module")
def calls() -> tuple[CallFacts, ...]:
    return watched(tiny()).capture.coverage.calls


def moved(
    calls: tuple[CallFacts, ...], visible: BoolArray | None, at: int, size: int = 6
) -> list[int]:
    """Where a change of one token gets to through two layers with this mask."""
    changed = np.arange(size)[None] == at
    over = [replace(facts, queries=size, keys=size) for facts in calls[:2]]
    result = reached(changed, over, lambda _: visible, recurrent=False)
    return np.flatnonzero(result[0]).tolist()


def test_a_causal_mask_lets_a_change_go_forward(calls: tuple[CallFacts, ...]) -> None:
    assert moved(calls, np.tri(6, dtype=bool)[None, None], 4) == [4, 5]


def test_a_window_lets_it_go_one_window_a_layer(calls: tuple[CallFacts, ...]) -> None:
    distance = np.subtract.outer(np.arange(6), np.arange(6))
    window = ((distance >= 0) & (distance < 2))[None, None]
    assert moved(calls, window, 0) == [0, 1, 2]


def test_without_a_mask_it_gets_everywhere(calls: tuple[CallFacts, ...]) -> None:
    assert moved(calls, None, 2) == [0, 1, 2, 3, 4, 5]


def test_other_layers_carry_it_forward(calls: tuple[CallFacts, ...]) -> None:
    changed = np.arange(5)[None] == 2
    alone = np.eye(5, dtype=bool)[None, None]
    result = reached(changed, calls[:1], lambda _: alone, recurrent=True)
    assert np.flatnonzero(result[0]).tolist() == [2, 3, 4]


def test_a_right_model_stays_where_it_must() -> None:
    (check,) = probed(watched(tiny()))
    assert (check.name, check.changed) == ("later token", "the last token")
    assert check.held == len(IDS) - 1
    assert check.verdict in ("identical", "rounding")


def test_the_first_token_moves_no_row_that_a_chain_of_windows_does_not_reach(
    tmp_path: Path,
) -> None:
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    config |= {
        "num_hidden_layers": 2,
        "sliding_window": 4,
        "layer_types": ["sliding_attention"] * 2,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    loaded = load(replace(options().load, source=str(tmp_path)))
    ids = tuple(range(3, 33))
    later, first = probed(watched(loaded, ids))
    assert (first.name, first.changed) == ("first token", "the first token")
    assert first.held == len(ids) - (1 + 2 * 3)  # two layers whose windows reach three back
    assert first.verdict in ("identical", "rounding")
    assert later.held == len(ids) - 1


def test_padding_may_change() -> None:
    later, padding = probed(watched(tiny(), IDS, IDS[:4]))
    assert later.held == len(IDS) - 1 + 4 - 1
    assert (padding.name, padding.changed) == ("padding", "5 padding tokens")
    assert padding.held == len(IDS) + 4
    assert padding.verdict in ("identical", "rounding")


def test_a_leak_is_found_in_the_layer_where_it_is() -> None:
    loaded = tiny()
    with leaking(loaded, 2):
        (check,) = probed(watched(loaded))
    assert check.verdict == "different"
    assert check.max_abs > 1e-3
    assert check.place is not None
    assert check.place.path == "model.layers.2.self_attn"
    assert (check.item, check.query) == (0, 0)
    (finding,) = [f for f in report_findings((), (check,)) if f.code == "mask-leaks"]
    assert finding.severity == "error"
    assert "model.layers.2.self_attn" in finding.message
