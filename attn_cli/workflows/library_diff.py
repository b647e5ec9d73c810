"""diff from Python: two engines on an input, or two dumps, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from attn_cli import formats
from attn_cli.core.difference import Tolerance
from attn_cli.core.dump import Dump
from attn_cli.core.results_diff import DiffResult, Side
from attn_cli.core.settings import Align, Choices, Scale
from attn_cli.recognize.from_memory import dump_from
from attn_cli.workflows.diff import check_no_dumps, check_no_input, is_pair
from attn_cli.workflows.diff import diff as diff_by_name
from attn_cli.workflows.diff_options import DiffOptions, engine_sides, name_map


def diff(
    left: str | PathLike[str] | Mapping[str, Any],
    right: Any = None,
    *,
    mask: str | Iterable[str] = (),
    scale: Scale | None = None,
    softcap: float | None = None,
    align: Align | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    seed: int | None = None,
    shape: tuple[int, int, int, int] | None = None,
    dtype: str = "float64",
    device: str = "cpu",
    names: Mapping[str, str] | None = None,
    layout: Mapping[Side, str] | None = None,
    computed: Mapping[Side, str] | None = None,
    stages: Iterable[str] = (),
    atol: float | None = None,
    rtol: float | None = None,
) -> DiffResult:
    """Two computations stage by stage, as `attn diff` compares them.

    `left` is "numpy-vs-torch@bfloat16" and `right` the engines' input, as `run` takes one, or None
    for seeded numbers; or both are dumps: paths, or mappings of arrays by name. `names` says what
    arrays are, theirs → ours; `layout` and `computed` are by side. The other names are those of the
    options. Raises AttnError for what cannot be compared.

    >>> result = diff("numpy-vs-torch", [[1.0, 0.0], [0.0, 1.0]], mask="causal")
    >>> result.first_difference, [stage.verdict for stage in result.stages][:2]
    (None, ['identical', 'identical'])
    """
    options = _options(dict(locals()))
    path = fspath(right) if isinstance(right, (str, PathLike)) else None
    if isinstance(left, str) and (right is None or path is not None):
        return diff_by_name(left, path, options)
    if isinstance(left, str) and is_pair(left, None):
        return _on_input(left, right, options)
    from attn_cli.workflows.diff_dumps import diff_dumps

    check_no_input(options)
    return diff_dumps(_dump(left), _dump(right), options)


def _options(given: Mapping[str, Any]) -> DiffOptions:
    """The arguments of `diff` by name as the options of a comparison."""
    mask = given["mask"]
    alike = ("scale", "softcap", "align", "heads", "kv_heads", "seed")
    choices = Choices(
        masks=(mask,) if isinstance(mask, str) else tuple(mask),
        **{name: given[name] for name in alike},
    )
    return DiffOptions(
        choices=choices,
        dtype=given["dtype"],
        device=given["device"],
        shape=given["shape"],
        map=name_map(f"{theirs}={ours}" for theirs, ours in (given["names"] or {}).items()),
        layout=given["layout"] or {},
        computed=given["computed"] or {},
        stages=tuple(given["stages"]),
        tolerance=Tolerance(given["atol"], given["rtol"]),
    )


def _on_input(pair: str, given: Any, options: DiffOptions) -> DiffResult:
    """Two engines on what `run` takes."""
    from attn_cli.workflows.diff_engines import diff_reading
    from attn_cli.workflows.library import read_given

    sides = engine_sides(pair, options.dtype)
    check_no_dumps(options)
    return diff_reading(read_given(given, options.choices), sides, options)


def _dump(given: Any) -> Dump:
    return formats.read(fspath(given)) if isinstance(given, (str, PathLike)) else dump_from(given)
