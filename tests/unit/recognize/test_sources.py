"""sources: what a layer's projections stand beside, and that they come from one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize import understand
from tests.unit.recognize.dumps import dump_of, normal, qkv, read, said
from tests.unit.recognize.layers import STYLES, W, X, with_weights


def test_q_k_and_v_beside_x_and_its_projections_are_stages() -> None:
    stages = qkv((1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 4, 5))
    dump = dump_of(x=X[None], **stages, **STYLES["w_q"](), context=normal(1, 2, 4, 5))
    reading = read(dump, heads=2)
    assert reading.summary.kind == "token vectors"
    assert reading.summary.context is None
    np.testing.assert_allclose(reading.inputs.q[0, 0], (X @ W["q"])[:, :3], rtol=1e-13)
    assert said(reading, "stages") == "q, k, v: stages that are computed again from x"


def test_q_k_and_v_beside_x_alone_are_the_input() -> None:
    reading = read(dump_of(x=X[None], **qkv((1, 2, 4, 4))))
    assert reading.summary.kind == "q, k, v"
    assert reading.inputs.origin is None


def test_projections_beside_q_k_and_v_are_not_used() -> None:
    reading = read(dump_of(**qkv((3, 4)), **STYLES["w_q"]()))
    assert reading.inputs.origin is None
    assert "w_q" in said(reading, "ignored-arrays")


def test_activations_called_like_modules_are_no_matrices() -> None:
    dump = dump_of(x=X, q_proj=normal(1, 4, 6), k_proj=normal(1, 4, 6), v_proj=normal(1, 4, 6))
    with pytest.raises(InputError, match="no projections by a known name"):
        with_weights({name: dump.arrays[name] for name in ("q_proj", "k_proj", "v_proj")})
    assert read(dump).inputs.origin is None


@pytest.mark.parametrize("choice", [{"init": "xavier"}, {"seed": 3}, {"d_k": 4}, {"d_v": 4}])
def test_q_k_and_v_already_are_projected(choice: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is for token vectors, and the file holds q, k and v"):
        read(dump_of(**qkv((3, 4))), **choice)


def test_weights_for_q_k_and_v_are_refused() -> None:
    layer = dump_of(**STYLES["w_q"](), source="layer.npz")
    with pytest.raises(InputError, match=r"the weights, layer\.npz, are for token vectors"):
        understand(dump_of(**qkv((3, 4))), Choices(), weights=layer)


def test_projections_come_from_one_place() -> None:
    beside = dump_of(x=X, **STYLES["w_q"]())
    layer = dump_of(**STYLES["opt"](), source="layer.npz")
    with pytest.raises(InputError, match=r"in the file \(w_q.*those of layer\.npz"):
        understand(beside, Choices(heads=2), weights=layer)
    with pytest.raises(InputError, match=r"those that --init draws"):
        read(beside, heads=2, init="xavier")


@pytest.mark.parametrize(
    "choice, words",
    [
        ({"weights_layout": "in-out"}, "--weights-layout says how projections lie"),
        ({"seed": 2}, "--seed was given, and nothing is drawn"),
        ({"d_k": 2}, "--d-k is 2, and there are no projections"),
        ({"d_v": 2}, "--d-v is 2, and there are no projections"),
    ],
)
def test_an_option_with_nothing_to_act_on_is_a_mistake(choice: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(dump_of(x=X), **choice)
    assert read(dump_of(x=X, settings=choice)).inputs.origin is None  # a setting may stand idle


def test_the_files_settings_are_one_set() -> None:
    layer = dump_of(**STYLES["w_q"](), source="layer.npz", settings={"heads": 2, "mask": "causal"})
    reading = understand(dump_of(x=X), Choices(), weights=layer)
    assert (reading.settings.heads, reading.settings.mask) == (2, "causal")
    assert understand(dump_of(x=X), Choices(heads=1), weights=layer).settings.heads == 1
    with pytest.raises(InputError, match=r"file\.npz sets heads to 1 and layer\.npz to 2"):
        understand(dump_of(x=X, settings={"heads": 1}), Choices(), weights=layer)
