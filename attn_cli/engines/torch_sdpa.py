"""Engines `sdpa…`: F.scaled_dot_product_attention, by PyTorch's own choice or a kernel by name."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn_cli.core.around import Around
from attn_cli.core.engine import GPU, Ask, Capabilities
from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.recorder import Recorder
from attn_cli.core.trace import GIVEN_STAGES, Trace
from attn_cli.errors import UnsupportedError
from attn_cli.torch_arrays import to_numpy, to_tensor, usable_device

INF = float("inf")
STAGES = frozenset((*GIVEN_STAGES, "context", "merged", "output"))
NO_PARAMETER = "scaled_dot_product_attention has no parameter for it"
REFUSES = {"softcap": NO_PARAMETER, "sinks": NO_PARAMETER}
FLOATS = ("float64", "float32", "float16", "bfloat16")
KERNELS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


class SdpaEngine:
    """The context of attention in one call; what happens within is not shown.

    Masks go in as booleans (True = may attend) or, with a bias or an additive mask, as numbers to
    add with −inf where hidden; never as `is_causal`, whose alignment is upper-left. What the kernel
    makes of an empty row, and of NaN in a hidden key, is passed through. Projections, rotations and
    the output around it are numpy's (`core/around.py`).
    """

    def __init__(
        self,
        kernel: str | None,
        *,
        dtypes: tuple[str, ...] = FLOATS,
        devices: tuple[str, ...] = ("any",),
        refuses: dict[str, str] | None = None,
    ) -> None:
        self.kernel = kernel
        self.name = "sdpa" if kernel is None else f"sdpa:{kernel}"
        self.can = Capabilities(
            stages=STAGES,
            dtypes=dtypes,
            devices=devices,
            gradients=False,
            copies=10,
            lse=False,
            refuses=REFUSES | (refuses or {}),
        )

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace:
        device = usable_device(ask.device, ask.dtype)
        recorder = Recorder(self.name, inputs, ask, STAGES)
        took: dict[str, None] = {}
        with torch.no_grad(), np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for batch in range(inputs.shape[0]):
                around = Around(inputs, batch, recorder)
                call = _call(around, device, getattr(torch, ask.dtype))
                took[chosen_kernel(call) if self.kernel is None else self.kernel] = None
                with _only(self.kernel, self.name):
                    context = F.scaled_dot_product_attention(**call)
                around.after(to_numpy(context[0]))
                recorder.finish_without_weights(batch)
        return recorder.trace([_kernel_note(list(took))] if self.kernel is None else [])


def _call(around: Around, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """The arguments of the call for one batch item."""
    inputs = around.inputs
    q, k, v = (to_tensor(array, device, dtype)[None] for array in around.before())
    return {
        "query": q,
        "key": k,
        "value": v,
        "attn_mask": _mask(inputs, around.batch, around.visible, device, dtype),
        "scale": inputs.effective_scale,
        "enable_gqa": inputs.kv_heads != inputs.shape[1],
    }


def _mask(
    inputs: AttentionInputs, batch: int, visible: Any, device: torch.device, dtype: torch.dtype
) -> Tensor | None:
    """(1, H, L, S): True = may attend, or what is added; None where nothing is hidden or added."""
    if inputs.has_bias or inputs.additive is not None:
        added = inputs.biased_by(batch) + inputs.added(batch)
        added = added if visible is None else np.where(visible, added, -INF)
        return to_tensor(added, device, dtype)[None]
    return None if visible is None else to_tensor(visible, device)[None]


def bare_call(
    inputs: AttentionInputs, engine: str, *, device: str, dtype: str, is_causal: bool
) -> tuple[Callable[[], Tensor], str]:
    """What a program that uses PyTorch runs, to be timed: the call alone, and its kernel.

    q, k, v and the mask of batch item 0 lie ready on the device as tensors. With `is_causal` there
    is no array of a mask. `engine` is one of this file; nothing is added to the scores of `inputs`.
    """
    assert not inputs.has_bias
    assert inputs.additive is None
    kernel, where = engine.partition(":")[2] or None, usable_device(device, dtype)
    given = (inputs.q, inputs.k, inputs.v)
    q, k, v = (to_tensor(array[:1], where, getattr(torch, dtype)) for array in given)
    seen = None if is_causal or inputs.mask is None else inputs.keep(0)
    if seen is not None and seen.strides[0] == 0:  # the same for every head
        seen = seen[:1]
    call: dict[str, Any] = {
        "query": q,
        "key": k,
        "value": v,
        "attn_mask": None if seen is None else to_tensor(seen, where)[None],
        "is_causal": is_causal,
        "scale": inputs.effective_scale,
        "enable_gqa": inputs.kv_heads != inputs.shape[1],
    }

    def run() -> Tensor:
        with torch.no_grad(), _only(kernel, engine):
            return F.scaled_dot_product_attention(**call)

    return run, kernel or chosen_kernel(call)


def chosen_kernel(call: dict[str, Any]) -> str:
    """The kernel that PyTorch takes for this call, by the function that it asks itself."""
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None:
        return "unknown"
    tensors = [call[name] for name in ("query", "key", "value", "attn_mask")]
    causal = call.get("is_causal", False)
    number = choose(*tensors, 0.0, causal, scale=call["scale"], enable_gqa=call["enable_gqa"])
    names = {int(backend.value): name for name, backend in KERNELS.items()}
    return names.get(int(number), f"number {number}")


def _kernel_note(names: list[str]) -> Finding:
    if names == ["unknown"]:
        told = "this PyTorch does not tell which kernel scaled_dot_product_attention took"
    else:
        told = f"scaled_dot_product_attention took its {' and its '.join(names)} kernel"
    return note("sdpa-kernel", told, Place(stage="context", layer=0))


@contextlib.contextmanager
def _only(kernel: str | None, engine: str) -> Iterator[None]:
    """PyTorch held to one kernel; UnsupportedError with PyTorch's reason where that refuses."""
    if kernel is None:
        yield
        return
    with warnings.catch_warnings(record=True) as said, sdpa_kernel(KERNELS[kernel]):
        warnings.simplefilter("always")  # the reasons come as warnings
        try:
            yield
        except RuntimeError as error:
            raise UnsupportedError(
                f"engine {engine}: PyTorch refuses: {_reason(said, error)}",
                hint="use --engine sdpa, which takes a kernel that can, or --engine torch",
            ) from error


def _reason(said: list[warnings.WarningMessage], error: RuntimeError) -> str:
    """The last warning, which is the most particular, in one line; else the error itself."""
    told = [str(warning.message) for warning in said if "because" not in str(warning.message)]
    return (told[-1] if told else str(error)).splitlines()[0].split(" (Triggered")[0]


CHOSEN = SdpaEngine(None)
"""F.scaled_dot_product_attention; a note says which kernel PyTorch chose; context alone."""

MATH = SdpaEngine("math")
"""scaled_dot_product_attention held to its kernel of plain operations."""

FLASH = SdpaEngine(
    "flash", refuses={"widths": "PyTorch's flash kernel wants q, k and v of one width"}
)
"""scaled_dot_product_attention held to its flash kernel, tile by tile; wants d_v = d_k."""

EFFICIENT = SdpaEngine("efficient", dtypes=("float32", "float16", "bfloat16"), devices=GPU)
"""scaled_dot_product_attention held to its memory-efficient kernel; needs a GPU."""

CUDNN = SdpaEngine("cudnn", dtypes=("float16", "bfloat16"), devices=GPU)
"""scaled_dot_product_attention held to cuDNN's kernel; needs a GPU."""
