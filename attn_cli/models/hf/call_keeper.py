"""CallKeeper: chosen calls as arrays, to be run again step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.models.hf.call import AttentionCall
from attn_cli.torch_arrays import to_numpy

TENSORS = ("q", "k", "v", "mask", "sinks", "position_bias", "masked", "weights", "context")


@dataclass(frozen=True, slots=True, eq=False)
class KeptCall:
    """One call: its facts and scaling, and by name those of TENSORS that it has.

    Arrays have the axes of AttentionCall; bfloat16 lies in float32, and `dtypes` says so.
    """

    facts: CallFacts
    scaling: float
    arrays: dict[str, NDArray[Any]]
    dtypes: dict[str, str]


@dataclass(slots=True)
class CallKeeper:
    """Observer: keeps the calls that `wanted` says yes to."""

    wanted: Callable[[CallFacts], bool]
    kept: dict[CallPlace, KeptCall] = field(default_factory=dict)

    def see(self, call: AttentionCall) -> None:
        if not self.wanted(call.facts):
            return
        there = {name: t for name in TENSORS if isinstance(t := getattr(call, name), Tensor)}
        self.kept[call.facts.place] = KeptCall(
            facts=call.facts,
            scaling=call.scaling,
            # clone: a model on the CPU may write into its tensors afterwards
            arrays={name: to_numpy(tensor.clone()) for name, tensor in there.items()},
            dtypes={n: str(tensor.dtype).removeprefix("torch.") for n, tensor in there.items()},
        )
