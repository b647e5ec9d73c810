"""Position schemes, one a file. This table is all that the rest of attn knows of them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attn_cli.core.registry import Registry

if TYPE_CHECKING:
    from attn_cli.positions.declaration import Scheme

POSITIONS: Registry[Scheme] = Registry(
    "position scheme",
    {
        "none": "attn_cli.positions.none:SCHEME",
        "sinusoidal": "attn_cli.positions.sinusoidal:SCHEME",
        "learned": "attn_cli.positions.learned:SCHEME",
        "rope": "attn_cli.positions.rope:SCHEME",
        "alibi": "attn_cli.positions.alibi:SCHEME",
        "relative": "attn_cli.positions.relative:SCHEME",
    },
)
