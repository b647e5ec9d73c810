"""What is said of the heads of a model, against the weights that transformers returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attn_cli.core.model_heads import MEANS
from attn_cli.core.results_model import ModelReport
from attn_cli.errors import InputError, UndecidedError
from attn_cli.models.hf.options import InputOptions, LoadOptions
from attn_cli.workflows.model.report import model
from tests.unit.workflows.model.tiny import IDS, options, tiny

Array = NDArray[Any]


@pytest.fixture(scope="module")
def report() -> ModelReport:
    return model(options())


@pytest.fixture(scope="module")
def weights() -> list[Array]:
    """(H, L, S) a layer, from transformers' own eager function."""
    with torch.no_grad():
        said = tiny().model(torch.tensor([IDS]), output_attentions=True)
    return [layer[0].double().numpy() for layer in said.attentions]


def test_every_layer_and_head_is_there(report: ModelReport) -> None:
    assert [call.facts.layer for call in report.calls] == [0, 1, 2, 3]
    assert [head.head for head in report.heads] == [0, 1, 2, 3] * 4
    assert report.output.verdict == "identical"


def test_figures_are_those_of_the_weights(report: ModelReport, weights: list[Array]) -> None:
    length = len(IDS)
    queries, keys = np.arange(length)[:, None], np.arange(length)
    for head in report.heads:
        mine = weights[head.layer][head.head]
        window = 6 if head.layer % 2 == 0 else length
        visible = np.minimum(np.arange(length) + 1, window)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.where(mine > 0, mine * np.log(mine), 0).sum(-1)
        expected = {
            "visible_keys": visible.mean(),
            "sum": 1.0,
            "entropy": entropy.mean(),
            "normalized_entropy": (entropy[1:] / np.log(visible[1:])).mean(),
            "effective_keys": np.exp(entropy).mean(),
            "max_weight": mine.max(-1).mean(),
            "first_key_weight": mine[:, 0].mean(),
            "mean_distance": (mine * abs(queries - keys)).sum(-1).mean(),
            "previous_weight": np.diagonal(mine, -1).mean(),
            "self_weight": np.diagonal(mine).mean(),
        }
        for name, value in expected.items():
            assert head.means[name] == pytest.approx(value, abs=2e-5), (name, head)
        assert set(head.means) == set(MEANS)
        assert np.isnan(head.means["next_weight"])  # no decoder looks ahead
        assert head.saturated_rows == int((mine.max(-1)[1:] > 0.99).sum())
        assert (head.rows, head.choice_rows, head.empty_rows) == (length, length - 1, 0)


def test_layers_that_share_a_mask_are_together(report: ModelReport) -> None:
    told = [(mask.words, [layer for _, layer in mask.where]) for mask in report.masks]
    assert told == [("window(6)", [0, 2]), ("causal", [1, 3])]
    assert [mask.keys_per_row for mask in report.masks] == [(1, 6), (1, 9)]
    assert [call.mask for call in report.calls] == [0, 1, 0, 1]


def test_padding_counts_for_nothing() -> None:
    both = model(options(given=InputOptions(input_ids=(IDS, IDS[:4]))))
    alone = model(options(given=InputOptions(input_ids=(IDS[:4],))))
    part = model(options(given=InputOptions(input_ids=(IDS, IDS[:4])), items=(1,)))
    assert [head.rows for head in both.heads] == [len(IDS) + 4] * 16
    for padded, plain in zip(part.heads, alone.heads, strict=True):
        assert padded.rows == 4
        for name in ("entropy", "max_weight", "mean_distance", "nearness"):
            assert padded.means[name] == pytest.approx(plain.means[name], abs=1e-5)


def test_layers_and_heads_narrow_what_is_listed() -> None:
    some = model(options(layers=(1, 2), heads=(0, 3)))
    assert [(head.layer, head.head) for head in some.heads] == [(1, 0), (1, 3), (2, 0), (2, 3)]
    assert some.narrowed
    assert some.views == ()


@pytest.mark.parametrize(
    "more, words",
    [
        ({"layers": (4,)}, "no attention in a layer 4"),
        ({"heads": (4,)}, "there is no head 4"),
        ({"items": (1,)}, "there is no item 1"),
        ({"queries": (0,)}, "no head is chosen"),
        ({"layers": (0,), "heads": (0,), "queries": (9,)}, "there is no query 9"),
    ],
)
def test_what_is_not_there_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        model(options(**more))


def test_a_model_without_softmax_attention_is_undecided(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 16, '
        '"num_hidden_layers": 1, "vocab_size": 100, "state_size": 4}',
        encoding="utf-8",
    )
    load = LoadOptions(source=str(tmp_path), random_weights=True)
    with pytest.raises(UndecidedError, match="no layer of MambaForCausalLM is softmax"):
        model(options(load=load))
