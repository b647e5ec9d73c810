"""ModelOptions: what `attn model` was asked for, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from attn_cli.core.trace import STAGES
from attn_cli.models.hf.options import InputOptions, LoadOptions
from attn_cli.workflows.model.questions import Questions

SAVED = ("q", "k", "v", *STAGES)  # what can be saved of a call


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The model, what it reads, and what is shown or left behind.

    `layers`, `heads`, `items` and `queries` narrow what is shown and listed, never what is
    computed. One layer and one head give the full view of that head. `stages` names what
    `save` holds, empty for all. `questions` are asked beside the report; `prometheus` is the file
    that its figures are written to. `checks` are run again in other ways, and `other` is the right
    side of a diff.
    """

    load: LoadOptions
    given: InputOptions
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    items: tuple[int, ...] | None = None
    queries: tuple[int, ...] | None = None
    stages: tuple[str, ...] = ()
    save: str | None = None
    force: bool = False
    rows_listed: bool = False  # JSON: the rows of the full views
    all_rows: bool = False
    questions: Questions = field(default_factory=Questions)
    prometheus: str | None = None
    checks: tuple[str, ...] = ()
    other: LoadOptions | None = None

    @property
    def full(self) -> bool:
        """Whether one head of one layer was asked for."""
        return (
            self.layers is not None
            and self.heads is not None
            and len(self.layers) == len(self.heads) == 1
        )
