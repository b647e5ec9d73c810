"""Checkpoint: what a folder of a configuration and tensors says of its attention layers."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.geometry import LayerGeometry
from attn_cli.core.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A folder, read without its numbers: its layers, and what does not fit in them.

    `known` says whether `model_type` is a family whose tensors can be told: where it is not, the
    layers are what can be read all the same. `dtype` is that of the tensors, else of the
    configuration, else float32; `says` are words on that choice. `bytes` are those of the tensors,
    in `files` files; `coverage` says in a sentence what was checked and what was not.
    """

    source: str
    model_type: str
    architecture: str
    known: bool
    dtype: str
    max_positions: int | None
    layers: tuple[LayerGeometry, ...]
    problems: tuple[Problem, ...] = ()
    tensors: int = 0
    parameters: int = 0
    bytes: int = 0
    files: int = 0
    coverage: str = ""
    says: tuple[str, ...] = ()

    @property
    def decided(self) -> bool:
        """Whether the tensors could be held against the configuration."""
        return self.known and self.tensors > 0
