"""No positions: attention does not know in which order the tokens stand."""

from __future__ import annotations

from attn_cli.positions.declaration import Scheme

SCHEME = Scheme(
    name="none",
    description="no positions: without a mask, attention is blind to the order of the tokens",
    says=lambda given: "none",
)
