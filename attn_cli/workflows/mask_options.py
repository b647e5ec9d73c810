"""What `attn mask` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.core.settings import Align


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskOptions:
    """None: not said. `targets` are names of paste.TARGETS; `fills`: measure fill values too."""

    queries: int | None = None
    keys: int | None = None
    align: Align | None = None
    targets: tuple[str, ...] = ()
    fills: bool = False
