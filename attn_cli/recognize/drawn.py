"""Drawn: projections that no file brings, made by --init from a seed."""

from __future__ import annotations

from attn_cli.core.blank import blank
from attn_cli.core.findings import note
from attn_cli.core.initial import Sizes, initial
from attn_cli.core.layer import Projections
from attn_cli.core.memory import available_bytes, size
from attn_cli.core.settings import Init
from attn_cli.errors import InputError
from attn_cli.recognize.layer import Layer
from attn_cli.recognize.settings import Asked
from attn_cli.recognize.widths import default_widths

BYTES_EACH = 6 * 8  # of a number while it is drawn: words, uniform, normal and their steps


def draw_projections(
    init: Init, *, d_model: int, d_context: int, asked: Asked, shapes_only: bool = False
) -> Layer:
    """Projections for vectors d_model wide that attend to vectors d_context wide.

    With `shapes_only` none is drawn: they are blank, of the same shapes. Raises InputError where
    the widths do not fit together, or the matrices do not fit in memory.
    """
    widths = default_widths(d_model, asked)
    sizes = Sizes(
        d_model=d_model,
        d_context=d_context,
        heads=widths.heads,
        kv_heads=widths.kv_heads,
        d_k=widths.d_k,
        d_v=widths.d_v,
    )
    if not shapes_only:
        _check_room(sizes)
    seed = asked.choices.seed or 0
    shapes = ", ".join(f"W_{name[-1]} {shape}" for name, shape in sizes.matrices.items())
    biases = "with biases" if init == "default" else "no biases"
    return Layer(
        projections=_blank(init, sizes) if shapes_only else initial(init, seed, sizes),
        widths=widths,
        init=init,
        seed=seed,
        findings=(
            note("projections", f"projections drawn, {init}, seed {seed}: {shapes}, {biases}"),
        ),
    )


def _blank(init: Init, sizes: Sizes) -> Projections:
    """What `initial` draws, without numbers."""
    biased = sizes.matrices.items() if init == "default" else ()
    biases = {f"b{name[1:]}": blank((after,)) for name, (_, after) in biased}
    return Projections(**{name: blank(shape) for name, shape in sizes.matrices.items()}, **biases)


def _check_room(sizes: Sizes) -> None:
    need, free = sizes.numbers * BYTES_EACH, available_bytes()
    if free is not None and need > free:
        raise InputError(
            f"projections of {sizes.numbers:,} numbers need about {size(need)} of memory, and "
            f"{size(free)} are free",
            hint="give smaller --heads, --d-k or --d-v",
        )
