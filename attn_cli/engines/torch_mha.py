"""Engine `mha`: nn.MultiheadAttention with the layer's projections; weights and output."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attn_cli.core.around import Around
from attn_cli.core.engine import Ask, Capabilities
from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Projections
from attn_cli.core.recorder import Recorder
from attn_cli.core.trace import GIVEN_STAGES, Trace
from attn_cli.core.weight_rows import rows_of_weights
from attn_cli.torch_arrays import to_numpy, to_tensor, usable_device

Array = NDArray[Any]
INF = float("inf")
STAGES = frozenset((*GIVEN_STAGES, "weights", "context", "merged", "output"))
WITHIN = frozenset((*GIVEN_STAGES[2:], "context", "merged"))  # between in_proj and out_proj


def has_projections(inputs: AttentionInputs) -> bool:
    """Whether the module can do the input's projections itself: its embed_dim is H·d_k."""
    weights = inputs.origin.projections if inputs.origin is not None else None
    if weights is None or weights.w_o is None or inputs.rotation is not None:
        return False
    width = inputs.shape[1] * inputs.q.shape[3]
    return weights.w_q.shape == weights.w_o.shape == (width, width)


def _hidden(inputs: AttentionInputs) -> frozenset[str]:
    return WITHIN if has_projections(inputs) else frozenset()


class MhaEngine:
    """The weights of every head, and the output.

    Where d_model = H·d_k and there is an output projection, token vectors go through the module's
    own in_proj and out_proj, and nothing in between is shown; else q, k and v, made in numpy
    (`core/around.py`), go through projections that are the identity. Masks are turned into True =
    hidden, or, with a bias or an additive mask, into numbers to add. An empty row is NaN, as the
    module has it.
    """

    name = "mha"
    can = Capabilities(
        stages=STAGES,
        dtypes=("float64", "float32", "float16", "bfloat16"),
        devices=("any",),
        gradients=False,
        copies=12,
        lse=False,
        empty_row=float("nan"),
        refuses={
            "softcap": "nn.MultiheadAttention has none",
            "sinks": "nn.MultiheadAttention has none",
            "scale": "nn.MultiheadAttention always divides by √d_k",
            "grouped": "nn.MultiheadAttention has as many key/value heads as query heads",
            "widths": "nn.MultiheadAttention has one width for q, k and v",
            "nonfinite": "a projection, the identity too, spreads it over every head",
        },
        hides=_hidden,
    )

    def run(self, inputs: AttentionInputs, ask: Ask) -> Trace:
        device, dtype = usable_device(ask.device, ask.dtype), getattr(torch, ask.dtype)
        recorder = Recorder(self.name, inputs, ask, self.can.shows(inputs))
        own = has_projections(inputs)
        module = _module(inputs, device, dtype, own=own)
        with torch.no_grad(), np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for batch in range(inputs.shape[0]):
                around = Around(inputs, batch, recorder)
                x = _from_vectors(around) if own else _from_heads(around)
                output, weights = module(
                    *(to_tensor(array, device, dtype)[None] for array in x),
                    attn_mask=_mask(around, device, dtype),
                    need_weights=True,
                    average_attn_weights=False,
                )
                _finish(around, to_numpy(weights[0]), to_numpy(output[0]), own=own)
        return recorder.trace([_note(own=own)])


def _note(*, own: bool) -> Finding:
    through = "its own in_proj and out_proj" if own else "projections that are the identity"
    return note("mha-projections", f"nn.MultiheadAttention ran with {through}", Place(layer=0))


def _module(
    inputs: AttentionInputs, device: torch.device, dtype: torch.dtype, *, own: bool
) -> nn.MultiheadAttention:
    """The module with its weights, in training mode (without dropout): that has no fast path."""
    _, heads, _, _ = inputs.shape
    width = heads * inputs.q.shape[3]
    weights = inputs.origin.projections if own and inputs.origin is not None else None
    if weights is None:
        eye = np.eye(width)
        weights = Projections(w_q=eye, w_k=eye, w_v=eye, w_o=eye)
    module = nn.MultiheadAttention(
        width,
        heads,
        batch_first=True,
        kdim=weights.w_k.shape[0],
        vdim=weights.w_v.shape[0],
        device=device,
        dtype=dtype,
    ).train()
    matrices = [to_tensor(w.T, device, dtype) for w in (weights.w_q, weights.w_k, weights.w_v)]
    with torch.no_grad():
        if module.in_proj_weight is not None:
            module.in_proj_weight.copy_(torch.cat(matrices))
        else:
            for name, matrix in zip("qkv", matrices, strict=True):
                getattr(module, f"{name}_proj_weight").copy_(matrix)
        module.in_proj_bias.zero_()
        module.out_proj.bias.zero_()
        _set_biases(module, weights, width)
        assert weights.w_o is not None
        module.out_proj.weight.copy_(torch.tensor(weights.w_o.T.copy()))
    return module


def _set_biases(module: nn.MultiheadAttention, weights: Projections, width: int) -> None:
    for place, bias in enumerate((weights.b_q, weights.b_k, weights.b_v)):
        if bias is not None:
            module.in_proj_bias[place * width : (place + 1) * width] = torch.tensor(bias.copy())
    if weights.b_o is not None:
        module.out_proj.bias.copy_(torch.tensor(weights.b_o.copy()))


def _from_vectors(around: Around) -> tuple[Array, Array, Array]:
    """x and the vectors it looks at, with their positions, before any projection."""
    origin = around.inputs.origin
    assert origin is not None
    x = around.stage("x", origin.x[around.batch])
    if origin.encoding is not None:
        x = around.stage("x_positions", x + around.cast(origin.encoding))
    if origin.context is None:
        return x, x, x
    y = around.cast(origin.context[around.batch])
    if origin.context_encoding is not None:
        y = around.cast(y + around.cast(origin.context_encoding))
    return x, y, y


def _from_heads(around: Around) -> tuple[Array, Array, Array]:
    """q, k and v with their heads side by side: (L, H·d)."""
    q, k, v = (array.swapaxes(0, 1) for array in around.before())
    return q.reshape(len(q), -1), k.reshape(len(k), -1), v.reshape(len(v), -1)


def _mask(around: Around, device: torch.device, dtype: torch.dtype) -> Tensor | None:
    """(H, L, S): True = hidden, or what is added; None where nothing is hidden or added."""
    inputs, visible = around.inputs, around.visible
    if inputs.has_bias or inputs.additive is not None:
        added = inputs.biased_by(around.batch) + inputs.added(around.batch)
        return to_tensor(
            added if visible is None else np.where(visible, added, -INF), device, dtype
        )
    return None if visible is None else to_tensor(~visible, device)


def _finish(around: Around, weights: Array, output: Array, *, own: bool) -> None:
    """Shows weights (H, L, S) and output (L, H·d_v), and records the rows."""
    inputs, recorder, ask = around.inputs, around.recorder, around.recorder.ask
    recorder.see(around.batch, "weights", weights, around.visible)
    if own:
        around.stage("output", output)
    else:
        around.after(output.reshape(len(output), len(weights), -1).swapaxes(0, 1))
    rows = rows_of_weights(inputs, around.batch, weights, ask.stats, ask.dtype)
    recorder.finish(around.batch, rows, masked=weights, weights=weights, visible=around.visible)


ENGINE = MhaEngine()
