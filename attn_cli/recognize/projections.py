"""Projections: the matrices of a layer out of a file, brought to (in, out) and split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.layer import Projections
from attn_cli.core.settings import WeightsLayout
from attn_cli.errors import InputError, MisfitError
from attn_cli.recognize.layer import Layer
from attn_cli.recognize.numbers import real
from attn_cli.recognize.orientation import Shaped, orientation, undecided
from attn_cli.recognize.parameters import Kind, Parameters, Part
from attn_cli.recognize.per_head import Named, side_by_side
from attn_cli.recognize.projections_said import said_of_projections
from attn_cli.recognize.settings import Asked
from attn_cli.recognize.widths import Widths, widths_of

Array = NDArray[Any]


def read_projections(
    parameters: Parameters, *, d_model: int, d_context: int, asked: Asked
) -> Layer:
    """The projections of vectors d_model wide; k and v are made from vectors d_context wide.

    Raises InputError, with the shape expected and the shape found, for what does not fit, and
    where square matrices do not say which of their axes is which.
    """
    arrays, counted, said = side_by_side(_arrays(parameters), parameters, asked)
    shaped = list(_shaped(parameters, arrays, d_model, d_context))
    layout = orientation(shaped, counted)
    parts = [part for part in parameters.weights if part != "o"]
    widths = widths_of(
        {part: matrix.out(layout) for part, matrix in zip(parts, shaped, strict=True)},
        {part: parameters.label(part) for part in parts},
        d_model,
        counted,
    )
    if "o" in parameters.weights:
        merged, shape = widths.heads * widths.d_v, arrays["o", "weight"].shape
        shaped.append(Shaped(parameters.label("o"), shape, merged, "heads · d_v"))
        layout = orientation(shaped, counted)
    if layout is None:
        raise undecided(shaped[0])
    projections = _assembled(parameters, arrays, layout, widths)
    return Layer(
        projections=projections,
        widths=widths,
        source=parameters.dump.source,
        layout=layout,
        dtypes=dict(_dtypes(parameters)),
        findings=(
            *said_of_projections(parameters, projections, widths, layout, asked, d_model),
            *said,
        ),
    )


def _named(parameters: Parameters) -> Iterator[tuple[Part, Kind]]:
    yield from ((part, "weight") for part in parameters.weights)
    yield from ((part, "bias") for part in parameters.biases)


def _dtypes(parameters: Parameters) -> Iterator[tuple[str, str]]:
    for part, kind in _named(parameters):
        yield parameters.label(part, kind), parameters.dtype(part, kind)


def _arrays(parameters: Parameters) -> Named:
    """Every matrix and bias as floats."""
    arrays = {}
    for part, kind in _named(parameters):
        array, label = parameters.array(part, kind), parameters.label(part, kind)
        if array.dtype.kind in "iu" and array.dtype.itemsize == 1:
            raise InputError(
                f"{label} is {array.dtype}: the numbers of a quantised matrix mean nothing "
                "without their scales",
                hint="give the matrices as floats",
            )
        arrays[part, kind] = real(array, label)
    return arrays


def _shaped(
    parameters: Parameters, arrays: Named, d_model: int, d_context: int
) -> Iterator[Shaped]:
    """The matrices of q, k and v, with the width of what goes into each."""
    for part in parameters.weights:
        if part == "o":
            continue
        label, shape = parameters.label(part), arrays[part, "weight"].shape
        cross = "q" not in part and d_context != d_model
        if part == "qkv" and d_model != d_context:
            raise MisfitError(
                f"{label} makes q, k and v from vectors of one width, and the token vectors are "
                f"{d_model} wide and the context {d_context}"
            )
        into, what = (d_context, "the context's width") if cross else (d_model, "d_model")
        yield Shaped(label, shape, into, what)


def _assembled(
    parameters: Parameters, arrays: Named, layout: WeightsLayout, widths: Widths
) -> Projections:
    """The matrices (in, out) of q, k, v and the output, and the biases that there are."""
    found: dict[str, Array] = {}
    for part, kind in _named(parameters):
        array = arrays[part, kind]
        if kind == "weight":
            columns = array.T if layout == "out-in" else array
        else:
            columns = array
            _check_bias(parameters, part, array, _features(part, widths, found.get("w_o")))
        for letter, piece in _pieces(columns, part, widths):
            name = f"{'w' if kind == 'weight' else 'b'}_{letter}"
            if name in found:
                raise InputError(
                    f"{parameters.label(part, kind)} and another bias both are {name}",
                    hint="give one of them",
                )
            found[name] = piece if piece.flags.c_contiguous else piece.copy(order="C")
    return Projections(**found)


def _pieces(columns: Array, part: Part, widths: Widths) -> Iterator[tuple[str, Array]]:
    """What each of q, k and v gets of a fused matrix's columns or of a fused bias, in order."""
    if part == "o":
        yield part, columns
        return
    start = 0
    for letter in part:
        yield letter, columns[..., start : start + widths.columns[letter]]
        start += widths.columns[letter]


def _features(part: Part, widths: Widths, w_o: Array | None) -> int | None:
    """How many features a bias is added to; None where its matrix is missing."""
    if part == "o":
        return None if w_o is None else int(w_o.shape[1])
    return sum(widths.columns[letter] for letter in part)


def _check_bias(parameters: Parameters, part: Part, bias: Array, features: int | None) -> None:
    label = parameters.label(part, "bias")
    if features is None:
        raise InputError(f"{label} is the bias of an output projection, and there is no W_o")
    if bias.shape != (features,):
        raise MisfitError(
            f"{label} has shape {bias.shape}: expected ({features},), a number for each feature "
            "that its matrix makes"
        )
