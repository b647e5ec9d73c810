"""The layer of a call, from the path of its module."""

from __future__ import annotations

import pytest

from attn_cli.core.model_calls import CallPlace
from attn_cli.models.hf.facts import Layers, in_stack


@pytest.mark.parametrize(
    "path, expected",
    [
        ("model.layers.3.self_attn", ("model", "layers", 3)),
        ("h.11.attn", ("", "h", 11)),
        ("encoder.block.1.layer.0.SelfAttention", ("encoder", "block", 1)),  # T5: sublayers
        ("encoder.layers.2.blocks.1.attention.self", ("encoder", "layers.2.blocks", 1)),
        ("hiera.stages.0.layers.4.attn", ("hiera", "stages.0.layers", 4)),
        ("segformer.encoder.block.1.0.attention.self", ("segformer.encoder", "block.1", 0)),
        ("pooler.attention", ("pooler", "", 0)),
    ],
)
def test_the_list_that_a_layer_is_in(path: str, expected: tuple[str, str, int]) -> None:
    assert in_stack(path) == expected


def test_layers_in_stages_are_counted_through() -> None:
    layers = Layers()
    paths = [f"encoder.layers.{stage}.blocks.{block}.attn" for stage in (0, 1) for block in (0, 1)]
    for number, path in enumerate(paths):
        assert layers.of(CallPlace(path)) == ("encoder", number)
    assert layers.of(CallPlace(paths[1], turn=1)) == ("encoder", 1)
