"""The full view of a head: its weights against those that transformers returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attn_cli.core.results_model import HeadView
from attn_cli.models.hf.options import InputOptions
from attn_cli.workflows.model.report import model
from tests.unit.workflows.model.tiny import IDS, options, tiny

Array = NDArray[Any]


def view(layer: int, head: int, *rows: tuple[int, ...], item: int = 0) -> HeadView:
    given = InputOptions(input_ids=rows or (IDS,))
    report = model(options(given=given, layers=(layer,), heads=(head,), rows_listed=True))
    return report.views[item]


def own(layer: int, head: int) -> Array:
    """The weights of the family's eager function, asked of transformers."""
    loaded = tiny()
    with torch.no_grad():
        said = loaded.model(torch.tensor([IDS]), output_attentions=True)
    weights: Array = said.attentions[layer][0, head].double().numpy()
    return weights


@pytest.mark.parametrize("layer, head", [(0, 1), (1, 3), (2, 2)])
def test_weights_are_the_models_own(layer: int, head: int) -> None:
    shown = view(layer, head)
    np.testing.assert_allclose(shown.run.views[0].cells, own(layer, head), atol=2e-6)
    assert shown.context_gap < 1e-5


def test_the_stages_that_the_family_has_are_shown_in_order() -> None:
    stages = [step.stage for step in view(0, 1).run.shapes]
    projections = ["x", "q_proj", "k_proj", "v_proj", "q", "k", "v"]
    core = ["scores", "scaled", "softcapped", "masked", "weights", "context"]
    assert stages == [*projections, *core, "o_proj"]


def test_shapes_are_those_of_all_heads() -> None:
    shapes = {step.stage: step.shape for step in view(0, 1).run.shapes}
    assert shapes["q"] == (1, 4, 9, 8)
    assert shapes["k"] == (1, 2, 9, 8)
    assert shapes["scores"] == (1, 4, 9, 9)
    assert shapes["k_proj"] == (1, 9, 16)


def test_rows_carry_the_heads_own_number() -> None:
    run = view(1, 3).run
    assert {row.head for row in run.rows} == {3}
    assert [head.head for head in run.heads] == [3]
    assert run.chosen["head"] == (3,)


def test_padding_is_no_row() -> None:
    short = view(1, 0, IDS, IDS[:4], item=1)
    assert [row.query for row in short.run.rows] == [0, 1, 2, 3]
    alone = view(1, 0, IDS[:4])
    np.testing.assert_allclose(short.run.views[0].cells[:, :4], alone.run.views[0].cells, atol=2e-6)
