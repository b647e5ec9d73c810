"""Dump: what a file holds, read but not yet understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding


@dataclass(frozen=True, slots=True)
class Dump:
    """Named arrays, tokens and settings of one file; formats/ makes it, recognize/ reads it.

    `arrays` holds numpy arrays in C order and native byte order. Precisions that numpy lacks
    (bfloat16, float8) arrive widened exactly to float32; `dtypes` says what the file held
    ("float16", "bfloat16", "float8_e4m3fn", "int64", "bool", "json" for numbers written as text).
    `unnamed` is True where the format has one array without a name (npy, csv, a bare JSON list);
    it is then called "x". `texts` holds lists of strings ("tokens", "context_tokens"), nested once
    for a batch. `settings` are the file's defaults for options, still unchecked. `axes` names the
    axes of arrays that attn itself saved. `strings` is the metadata of a safetensors file as it
    stands there. `others` says of each name that stands for something else, which is not read, what
    that is: "the text 'causal'", "null".
    """

    source: str  # as the user wrote it; "-" for standard input
    format: str  # "json", "csv", "npy", "npz", "safetensors", "pt"
    arrays: Mapping[str, NDArray[Any]]
    dtypes: Mapping[str, str]
    sha256: str
    unnamed: bool = False
    texts: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strings: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
