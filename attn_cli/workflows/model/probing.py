"""Probing: the forwards with changed tokens that show whether the masks do what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.results_model import MaskProbe
from attn_cli.core.rounding import precision
from attn_cli.errors import InputError
from attn_cli.workflows.model.probes import Change, Seen, Spare, changes, probe, reached
from attn_cli.workflows.model.real_rows import in_decoder, real_queries

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs
    from attn_cli.workflows.model.report import Watched


_PICTURES = (
    "image_token_id",
    "image_token_index",
    "video_token_id",
    "video_token_index",
    "audio_token_id",
    "audio_token_index",
)


def probed(watched: Watched) -> tuple[MaskProbe, ...]:
    """Every probe that the input allows: none for pictures and sound."""
    if not {"input_ids", "decoder_input_ids"} & watched.inputs.tensors.keys():
        return ()
    calls = watched.capture.coverage.calls
    before = _seen(watched, watched.statistics, watched.capture.outputs)
    pictures = _ids(watched, _PICTURES)
    padding = _ids(watched, ("pad_token_id",))
    vocabulary = int(watched.loaded.text_config.vocab_size)
    spare = Spare(vocabulary, avoid=pictures | padding, fixed=pictures)
    found = []
    for change in changes(watched.inputs, spare):
        over = list(_over(watched, change))
        held = _held(watched, change, over)
        if over and held(over[0]).any() and (after := _after(watched, change)) is not None:
            found.append(probe(change, before, after, calls, held, over[0]))
    return tuple(each for each in found if each is not None)


def _after(watched: Watched, change: Change) -> Seen | None:
    """None where the model refuses the changed token, as one that counts parts of a picture may."""
    from attn_cli.models.hf.capture import capture
    from attn_cli.models.hf.row_statistics import RowStatistics

    statistics = RowStatistics(())
    given = watched.inputs.with_tensors(**{change.tensor: change.given})
    try:
        seen = capture(watched.loaded, given, [statistics], verify=False)
    except InputError:
        return None
    return _seen(watched, statistics, seen.outputs)


def _seen(watched: Watched, statistics: Any, outputs: Any) -> Seen:
    from attn_cli.torch_arrays import to_numpy

    return Seen(
        lse={place: np.asarray(rows.lse) for place, rows in statistics.rows.items()},
        outputs={
            name: to_numpy(tensor)
            for name, tensor in outputs.items()
            if tensor.dtype.is_floating_point and tensor.ndim == 3
        },
        eps=precision(watched.loaded.dtype).eps,
    )


def _held(
    watched: Watched, change: Change, over: Sequence[CallFacts]
) -> Callable[[CallFacts], BoolArray]:
    """Which rows (B, L) of a call must stay; `over` are those of the sequence that changes."""
    recurrent = any(
        not layer.softmax or "beside" in layer.says for layer in watched.capture.coverage.layers
    )
    moved = reached(change.changed, over, watched.visible, recurrent=recurrent)
    mine = {facts.place for facts in over}
    length = moved.shape[1]

    def held(facts: CallFacts) -> BoolArray:
        real = real_queries(watched.inputs, facts)
        same = facts.place in mine or (
            facts.cross and _queries_changed(watched.inputs, facts, change)
        )
        return real & ~moved if same and real.shape == (len(moved), length) else real

    return held


def _over(watched: Watched, change: Change) -> Iterator[CallFacts]:
    """Self-attention over the sequence whose token changes."""
    for facts in watched.capture.coverage.calls:
        if facts.cross or not watched.inputs.reads_text(facts):
            continue
        if (facts.batch, facts.queries) != change.changed.shape:
            continue
        if facts.keys == facts.queries and _queries_changed(watched.inputs, facts, change):
            yield facts


def _queries_changed(inputs: ModelInputs, facts: CallFacts, change: Change) -> bool:
    return in_decoder(inputs, facts) == change.tensor.startswith("decoder")


def _ids(watched: Watched, names: Sequence[str]) -> frozenset[int]:
    """The ids that a configuration has under these names."""
    config, text = watched.loaded.config, watched.loaded.text_config
    found = (getattr(each, name, None) for each in (config, text) for name in names)
    return frozenset(value for value in found if type(value) is int)
