"""toy: a model's file holds what its config says, in the shapes that follow, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attn_cli import formats
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.models.toy import Model, model_from
from tests.unit.models.files import Toy, toy


def loaded(made: Toy, folder: Path) -> Model:
    return model_from(formats.read(made.save(folder / "toy.safetensors")))


def test_the_parts_are_found_by_name(tmp_path: Path) -> None:
    made = toy(layers=2, norm="pre", kv_heads=1)
    model = loaded(made, tmp_path)
    assert len(model.layers) == 2
    np.testing.assert_array_equal(model.embedding, made.arrays["embedding.weight"])
    second = model.layers[1]
    np.testing.assert_array_equal(second.projections.w_k, made.arrays["layers.1.w_k"])
    np.testing.assert_array_equal(second.norm.bias, made.arrays["layers.1.norm.bias"])
    assert second.projections.b_k is None
    assert model.final_norm is None
    assert model.unembedding is not None


def test_an_unembedding_may_be_missing(tmp_path: Path) -> None:
    assert loaded(toy().without("unembedding.weight"), tmp_path).unembedding is None


def test_whole_numbers_are_real_numbers(tmp_path: Path) -> None:
    made = toy().with_arrays({"layers.0.w_q": np.ones((6, 8), np.int8)})
    assert loaded(made, tmp_path).layers[0].projections.w_q.dtype == np.float64


CASES: dict[str, tuple[Callable[[], Toy], str]] = {
    "a missing matrix": (
        lambda: toy(layers=2).without("layers.1.w_o"),
        "has no 'layers.1.w_o': expected an array of 6 × 6",
    ),
    "a missing embedding": (
        lambda: toy().without("embedding.weight"),
        "has no 'embedding.weight': expected an array of 5 × 6",
    ),
    "missing positions": (
        lambda: toy(positions="learned").without("positions.weight"),
        "has no 'positions.weight': expected an array of positions × 6",
    ),
    "a wrong shape": (
        lambda: toy().with_arrays({"layers.0.w_q": np.ones((8, 6))}),
        r"'layers.0.w_q' has shape \(8, 6\): expected \(6, 8\) from the model's config",
    ),
    "a wrong bias": (
        lambda: toy().with_arrays({"layers.0.b_q": np.ones((1, 8))}),
        r"'layers.0.b_q' has shape \(1, 8\): expected \(8,\)",
    ),
    "fewer key/value heads than the matrix has": (
        lambda: toy().configured(kv_heads=1),
        r"'layers.0.w_k' has shape \(6, 8\): expected \(6, 4\)",
    ),
    "no positions at all": (
        lambda: toy(positions="learned").with_arrays({"positions.weight": np.ones((0, 6))}),
        r"'positions.weight' has shape \(0, 6\): expected \(positions, 6\)",
    ),
    "a matrix of bool": (
        lambda: toy().with_arrays({"layers.0.w_q": np.ones((6, 8), bool)}),
        "'layers.0.w_q' has dtype bool: expected real numbers",
    ),
    "more layers than there are": (
        lambda: toy().configured(layers=2),
        "has no 'layers.1.w_q'",
    ),
    "a million layers": (
        lambda: toy().configured(layers=1_000_000),
        "config says 1,000,000 layers, and the file holds 8 arrays",
    ),
    "fewer layers than there are": (
        lambda: toy(layers=2).configured(layers=1),
        "holds 'layers.1.b_o', .*no part of a model of 1 attention layers",
    ),
    "a part that attention layers lack": (
        lambda: toy().with_arrays({"layers.0.mlp": np.ones(3)}),
        "holds 'layers.0.mlp', no part of a model",
    ),
    "a norm that the config lacks": (
        lambda: toy(norm="pre").configured(norm="none"),
        "holds 'layers.0.norm.bias', .*with norm none",
    ),
    "fewer words than rows": (
        lambda: Toy(toy().arrays, toy().config, ["a", "b"]),
        "has 5 rows and the vocabulary 2 tokens: every token needs its row",
    ),
    "no config": (lambda: toy_with(config=""), "a model, and its metadata has no config"),
    "no vocabulary": (lambda: toy_with(vocabulary=""), "its metadata has no vocabulary"),
    "a config that is no JSON": (lambda: toy_with(config="{"), "config is not valid JSON"),
}


def toy_with(**metadata: str) -> Toy:
    return Toy(toy().arrays, toy().config, metadata=metadata)


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_holds_something_else_is_refused(case: str, tmp_path: Path) -> None:
    make, words = CASES[case]
    dump = formats.read(make().save(tmp_path / "toy.safetensors"))
    assert is_model(dump)
    with pytest.raises(InputError, match=words) as caught:
        model_from(dump)
    assert caught.value.message.startswith(dump.source)


def test_a_misspelt_name_suggests_the_near_one(tmp_path: Path) -> None:
    made = toy().without("layers.0.w_o").with_arrays({"layers.0.wo": np.ones((6, 6))})
    with pytest.raises(InputError) as caught:
        loaded(made, tmp_path)
    assert "did you mean 'layers.0.w_o'" in caught.value.hint


def test_one_mark_alone_makes_no_model(tmp_path: Path) -> None:
    vectors = Toy({"x": np.ones((2, 4))}, {}, metadata={"vocabulary": ""})
    assert not is_model(formats.read(vectors.save(tmp_path / "x.safetensors")))
