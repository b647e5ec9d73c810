"""attn: a debugger for attention. The library in one breath; each name is imported on first use.

>>> import attn_cli
>>> trace = attn_cli.run([[1.0, 0.0], [0.0, 1.0]], mask="causal")
>>> trace["weights"].round(3).tolist()
[[[[1.0, 0.0], [0.33, 0.67]]]]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attn_cli.version import __version__

if TYPE_CHECKING:
    from attn_cli.core.findings import Finding
    from attn_cli.core.inputs import AttentionInputs
    from attn_cli.core.model_results import ModelTrace
    from attn_cli.core.results_diff import DiffResult
    from attn_cli.core.results_impl import ImplResult
    from attn_cli.core.trace import Trace
    from attn_cli.errors import AttnError, InputError, UnsupportedError
    from attn_cli.workflows.library import run
    from attn_cli.workflows.library_diff import diff
    from attn_cli.workflows.library_impl import check_impl
    from attn_cli.workflows.library_model import run_model

_HOME = {
    "AttentionInputs": "attn_cli.core.inputs",
    "AttnError": "attn_cli.errors",
    "DiffResult": "attn_cli.core.results_diff",
    "Finding": "attn_cli.core.findings",
    "ImplResult": "attn_cli.core.results_impl",
    "InputError": "attn_cli.errors",
    "ModelTrace": "attn_cli.core.model_results",
    "Trace": "attn_cli.core.trace",
    "UnsupportedError": "attn_cli.errors",
    "check_impl": "attn_cli.workflows.library_impl",
    "diff": "attn_cli.workflows.library_diff",
    "run": "attn_cli.workflows.library",
    "run_model": "attn_cli.workflows.library_model",
}

__all__ = [
    "AttentionInputs",
    "AttnError",
    "DiffResult",
    "Finding",
    "ImplResult",
    "InputError",
    "ModelTrace",
    "Trace",
    "UnsupportedError",
    "__version__",
    "check_impl",
    "diff",
    "run",
    "run_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'attn_cli' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
