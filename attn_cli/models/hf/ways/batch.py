"""batch: an item in a batch is the item alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from attn_cli.core.results_model_ways import WayCheck
from attn_cli.models.hf.ways.bench import Bench, Text
from attn_cli.models.hf.ways.holding import Holding
from attn_cli.models.hf.ways.spans import Span, Spans


def batch(bench: Bench, text: Text) -> Iterator[WayCheck]:
    """The batch that was given; of a single item one of three, with its mirror image around it."""
    given, count = bench.inputs, bench.inputs.batch
    if count > 1:
        words, inputs, item = f"the {count:,} items together", given, text.item
    else:
        words, item, count = "between two others in a batch", 1, 3
        whole = text.ids is None  # ids beside a picture count its parts, and so do its sizes
        tensors = {
            name: torch.cat([_mirrored(tensor, whole), tensor, _mirrored(tensor, whole)])
            for name, tensor in text.inputs.tensors.items()
        }
        inputs = text.inputs.with_tensors(**tensors)
    main = Span(item=item, count=None if text.ids is None else text.length)
    under = Span(item=item, count=None if text.under is None else len(text.under))
    one_stack = text.ids is not None and text.under is None
    held = Holding(text.alone, Spans(main, None if one_stack else under, count))
    bench.run(held, inputs)
    yield bench.result("batch", "batch", words, text, held)


def _mirrored(tensor: torch.Tensor, whole: bool) -> torch.Tensor:
    """Another item of the same shape; beside a picture or a sound, whole numbers stay."""
    return tensor if whole and not tensor.is_floating_point() else tensor.flip(-1)
