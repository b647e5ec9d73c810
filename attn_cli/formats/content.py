"""Content: what a reader finds in one file; formats.read adds where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding


@dataclass(frozen=True, slots=True)
class Content:
    """The arrays, texts and settings of one file; the fields mean what they mean in a Dump."""

    format: str
    arrays: Mapping[str, NDArray[Any]]
    dtypes: Mapping[str, str]
    unnamed: bool = False
    texts: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strings: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
