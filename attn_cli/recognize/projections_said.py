"""What is said of projections out of a file: which array is what, and how it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attn_cli.core.findings import Finding, note
from attn_cli.core.layer import Projections
from attn_cli.core.settings import WeightsLayout
from attn_cli.recognize.listing import some
from attn_cli.recognize.parameters import Parameters, Part
from attn_cli.recognize.settings import Asked
from attn_cli.recognize.tables import table_names
from attn_cli.recognize.widths import Widths

WORDS: Mapping[WeightsLayout, str] = {
    "out-in": "(out, in), as PyTorch's nn.Linear keeps them",
    "in-out": "(in, out), as in x · W",
}


def said_of_projections(
    parameters: Parameters,
    projections: Projections,
    widths: Widths,
    layout: WeightsLayout,
    asked: Asked,
    d_model: int,
) -> Iterator[Finding]:
    """The notes on a layer's matrices, and a warning for what its module has beside them."""
    yield _roles(parameters)
    told = asked.choices.weights_layout is not None
    why = f"{asked.origin('weights_layout')} says" if told else "their shapes say"
    yield note("weights-layout", f"the matrices are {WORDS[layout]}: {why} so")
    for part in parameters.weights:
        if part in ("qkv", "kv"):
            pieces = " | ".join(f"{letter} {widths.columns[letter]}" for letter in part)
            label = parameters.label(part)
            yield note("fused-weights", f"{label} is cut into {pieces} features, in this order")
    if projections.w_o is None:
        yield note("no-output-projection", "there is no W_o: the output is the merged heads")
    elif projections.w_o.shape[1] != d_model:
        wide = projections.w_o.shape[1]
        yield note("output-width", f"W_o leads to {wide} features, not back to d_model {d_model}")
    yield from _beside(parameters)


def _roles(parameters: Parameters) -> Finding:
    words = [_role(parameters.label(part), part) for part in parameters.weights]
    biases = [parameters.label(part, "bias") for part in parameters.biases]
    return note(
        "projections",
        f"read {'; '.join(words)}" + (f"; biases {', '.join(biases)}" if biases else "; no biases"),
    )


def _role(label: str, part: Part) -> str:
    """`q_proj.weight as W_q`, or the name alone where it says just that."""
    role = ", ".join(f"W_{letter}" for letter in part)
    return label if label.lower() == role.lower() else f"{label} as {role}"


def _beside(parameters: Parameters) -> Iterator[Finding]:
    tables = table_names(parameters.dump, "positions", "relative")
    left = [name for name in parameters.beside if name not in tables]
    if left:
        yield Finding(
            "ignored-weights",
            "warning",
            f"beside the projections, and not used: {some(left)}; if they change what the layer "
            "computes, this run does not",
        )
