"""Ready-to-paste code: the same mask for each place that takes one. A place is one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attn_cli.core.registry import Registry

if TYPE_CHECKING:
    from attn_cli.paste.sheet import Sheet, Target

TARGETS: Registry[Target] = Registry(
    "target",
    {
        "sdpa": "attn_cli.paste.sdpa:write",
        "mha": "attn_cli.paste.mha:write",
        "flex": "attn_cli.paste.flex:write",
        "hf": "attn_cli.paste.hf:write",
    },
)


def write_code(sheet: Sheet, targets: Iterable[str]) -> Mapping[str, str]:
    """The code for each target; InputError for a name that is none."""
    return {target: TARGETS[target](sheet) for target in targets}
