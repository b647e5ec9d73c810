"""What `attn bench` can be asked for, and the check that it makes sense before anything starts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attn_cli.core.draws import LARGEST_SEED
from attn_cli.core.masks import Mask, MaskContext
from attn_cli.core.registry import unknown_name
from attn_cli.core.results_bench import REFERENCE
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.masks.expression import MaskExpression, conjunction, parse
from attn_cli.recognize.one_array import load_array

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}
LONGEST = 1 << 24  # 16,777,216 tokens
MOST_LENGTHS = 32
LARGEST = 1 << 16  # heads, widths
MOST_REPEATS = 1000
MOST_THREADS = 4096
LONGEST_LIMIT = 86_400.0  # s: a day
DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """None: as many key/value heads as heads, d_v as d_k, and the threads that PyTorch takes."""

    engines: tuple[str, ...]
    lengths: tuple[int, ...]
    heads: int = 8
    kv_heads: int | None = None
    d_k: int = 64
    d_v: int | None = None
    masks: tuple[str, ...] = ()
    dtype: str = "float32"
    device: str = "cpu"
    repeats: int = 5
    timeout: float = 30.0
    threads: int | None = None
    seed: int = 0

    @property
    def shared_heads(self) -> int:
        """How many key/value heads there are."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def value_width(self) -> int:
        return self.d_k if self.d_v is None else self.d_v

    @property
    def mask(self) -> MaskExpression | None:
        """What all of --mask let through; None where nothing is hidden."""
        whole = conjunction([parse(text) for text in self.masks])
        return None if str(whole) == "none" else whole

    def built_mask(self, length: int) -> Mask | None:
        """The mask for one length; InputError where it does not fit."""
        expression = self.mask
        if expression is None:
            return None
        context = MaskContext(
            batch=1, heads=self.heads, queries=length, keys=length, load=load_array
        )
        return expression.build(context)


def from_plain(fields: Mapping[str, Any]) -> BenchOptions:
    """The options as `dataclasses.asdict` and JSON have left them."""
    read: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return BenchOptions(**read)


def parse_engines(text: str) -> tuple[str, ...]:
    """The names of --engines, each once, the reference first; a wrong one suggests the near one.

    >>> parse_engines("torch,numpy,torch")
    ('sdpa', 'torch', 'numpy')
    """
    names = [part.strip() for part in text.split(",")]
    if "" in names:
        raise InputError(
            f"--engines is {text!r}: expected names with commas between",
            hint="such as --engines numpy,torch,tiled",
        )
    for name in names:
        if name not in ENGINES:
            raise unknown_name("engine", name, tuple(ENGINES))
    return tuple(dict.fromkeys((REFERENCE, *names)))


def parse_lengths(text: str) -> tuple[int, ...]:
    """The numbers of --lengths, each once, the shortest first; k is 1,024 and m 1,048,576.

    >>> parse_lengths("2k,512,1K")
    (512, 1024, 2048)
    """
    lengths = sorted({_length(part.strip(), text) for part in text.split(",")})
    if len(lengths) > MOST_LENGTHS:
        raise InputError(f"--lengths names {len(lengths)} lengths: at most {MOST_LENGTHS}")
    return tuple(lengths)


def _length(part: str, text: str) -> int:
    found = re.fullmatch(r"0*(\d{1,9})([kKmM]?)", part, re.ASCII)
    if not found:
        named = f"has {part!r}" if part else f"is {text!r}"
        raise InputError(
            f"--lengths {named}: expected numbers of tokens with commas between",
            hint="such as --lengths 512,1k,2k, where 1k is 1,024",
        )
    length = int(found[1]) * UNITS[found[2].lower()]
    if not 1 <= length <= LONGEST:
        raise InputError(f"--lengths has {part}: expected 1 to {LONGEST:,} tokens")
    return length


def check(options: BenchOptions) -> None:
    """InputError, before any process starts, where a size or the mask is impossible."""
    for name, value, most in (
        ("--heads", options.heads, LARGEST),
        ("--kv-heads", options.shared_heads, LARGEST),
        ("--d-k", options.d_k, LARGEST),
        ("--d-v", options.value_width, LARGEST),
        ("--repeats", options.repeats, MOST_REPEATS),
        ("--threads", options.threads, MOST_THREADS),
    ):
        if value is not None and not 1 <= value <= most:
            raise InputError(f"{name} is {value}: expected 1 to {most:,}")
    if options.heads % options.shared_heads:
        raise InputError(
            f"--heads is {options.heads} and --kv-heads {options.shared_heads}: the query heads "
            "must be a multiple of the key/value heads"
        )
    if not 0 <= options.seed <= LARGEST_SEED:
        raise InputError(f"--seed is {options.seed}: expected 0 to {LARGEST_SEED}")
    if not (math.isfinite(options.timeout) and 0 < options.timeout <= LONGEST_LIMIT):
        raise InputError(
            f"--timeout is {options.timeout:g}: expected seconds, above 0 and at most "
            f"{LONGEST_LIMIT:,.0f}"
        )
    if options.dtype not in DTYPES:
        raise unknown_name("precision", options.dtype, DTYPES)
    _check_mask(options)


def _check_mask(options: BenchOptions) -> None:
    for length in options.lengths if options.mask else ():
        try:
            options.built_mask(length)
        except InputError as error:
            raise InputError(f"at length {length:,}: {error.message}", hint=error.hint) from error
