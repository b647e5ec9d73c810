"""Frozen result of `attn bench`: what each engine costs at each length, and how that grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.core.findings import Finding
from attn_cli.core.results import json_number
from attn_cli.core.timing import median, spread

REFERENCE = "sdpa"  # always measured: the ratios are to it
SPREAD = "interquartile range"
Quantity = Literal["time", "memory"]
Why = Literal["unsupported", "memory", "time", "died", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One engine at one length. `runs_s` are seconds a run, empty where nothing was measured.

    `peak_bytes` is None where it was not measured. `ratio` is to the reference, NaN where that has
    no run. `why` and `reason` say what kept the engine from this length, or ended its turns.
    """

    engine: str
    length: int
    computes: str
    runs_s: tuple[float, ...] = ()
    peak_bytes: int | None = None
    ratio: float = float("nan")
    why: Why | None = None
    reason: str = ""

    @property
    def median_s(self) -> float:
        return median(self.runs_s)

    @property
    def spread_s(self) -> float:
        """The interquartile range of the runs; NaN of fewer than 2."""
        return spread(self.runs_s)

    def to_dict(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "length": self.length,
            "median_s": json_number(self.median_s),
            "spread_s": json_number(self.spread_s),
            "peak_bytes": self.peak_bytes,
            "ratio_to_sdpa": json_number(self.ratio),
            "computes": self.computes,
            "runs_s": list(self.runs_s),
            "why": self.why,
            "reason": self.reason or None,
        }


@dataclass(frozen=True, slots=True)
class BenchGrowth:
    """The exponent p of an engine's cost ~ length^p over `points` lengths; NaN: `reason` why."""

    engine: str
    quantity: Quantity
    exponent: float
    points: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "quantity": self.quantity,
            "exponent": json_number(self.exponent),
            "points": self.points,
            "reason": self.reason or None,
        }


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What was measured: one sequence of seeded standard normal q, k and v."""

    engines: tuple[str, ...]
    lengths: tuple[int, ...]
    heads: int
    kv_heads: int
    d_k: int
    d_v: int
    mask: str | None
    dtype: str
    device: str
    repeats: int
    timeout_s: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"engines": list(self.engines), "lengths": list(self.lengths)}


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Everything that `attn bench` knows; `rows` by length, then in the order of the engines.

    `device_name` says which accelerator it is, None on the CPU. `memory` says how the peak was
    measured, or that it could not be. `complete` is False where it was interrupted.
    """

    settings: BenchSettings
    threads: int
    versions: Mapping[str, str]
    device_name: str | None
    memory: str
    rows: tuple[BenchRow, ...]
    growth: tuple[BenchGrowth, ...]
    findings: tuple[Finding, ...]
    complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The object of `--json`, schema attn.bench/1."""
        return {
            "schema": "attn.bench/1",
            "settings": self.settings.to_dict(),
            "threads": self.threads,
            "versions": dict(self.versions),
            "device_name": self.device_name,
            "spread": SPREAD,
            "memory": self.memory,
            "complete": self.complete,
            "results": [row.to_dict() for row in self.rows],
            "growth": [growth.to_dict() for growth in self.growth],
            "findings": [finding.to_dict() for finding in self.findings],
        }
