"""capture(): one forward of a model, every attention call of it seen, and nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attn_cli.core.model_calls import ModelCoverage, OutputCheck
from attn_cli.errors import UndecidedError
from attn_cli.models.hf.call import Edit, Observer
from attn_cli.models.hf.coverage import coverage_of
from attn_cli.models.hf.forward import forward, outputs_of, run_raw
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.same_output import check_outputs
from attn_cli.models.hf.seeing import Seeing


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Capture:
    """What was covered, what the model returned, and how that compares with the model left alone.

    `check` is None where it was not asked for, and where an edit is meant to change the output.
    """

    coverage: ModelCoverage
    outputs: dict[str, Tensor]
    raw: Any
    check: OutputCheck | None


def capture(
    loaded: LoadedModel,
    inputs: ModelInputs,
    observers: Sequence[Observer] = (),
    *,
    verify: bool = True,
    edit: Edit | None = None,
    **extra: Any,
) -> Capture:
    """Runs the model once with every observer watching; `extra` goes to its forward.

    With `verify` the untouched model runs too, and a difference beyond rounding is UndecidedError:
    nothing is reported of a model that was not left as it is. `edit` changes weights, and so the
    output. The attention tables of transformers, hooks and modes are as before when this returns
    or raises.
    """
    alone = forward(loaded, inputs, **extra) if verify and edit is None else None
    seeing = Seeing(loaded.model, observers, edit)
    with seeing.watching():
        raw = run_raw(loaded, inputs, **extra)
    outputs = outputs_of(raw)
    check = None if alone is None else check_outputs(outputs, alone)
    if check is not None and check.verdict == "different":
        raise UndecidedError(
            f"{loaded.architecture} gives another output while it is watched: {check.output} is "
            f"{check.max_abs:.3g} off, beyond rounding ({check.limit:.3g})",
            hint="nothing is reported of a model that was not left as it is",
        )
    return Capture(
        coverage=coverage_of(
            loaded.model, seeing.calls, others=tuple(seeing.others), unread=tuple(seeing.skipped)
        ),
        outputs=outputs,
        raw=raw,
        check=check,
    )
