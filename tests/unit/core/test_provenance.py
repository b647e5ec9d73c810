"""Provenance: the versions that took part in a run, and torch only where it did."""

from __future__ import annotations

import platform
import sys

import numpy as np
import pytest
import torch

import attn_cli
from attn_cli.core.provenance import provenance


def test_versions_are_those_that_run() -> None:
    made = provenance("float32", "cpu")
    assert made.attn == attn_cli.__version__
    assert (made.numpy, made.torch) == (np.__version__, torch.__version__)
    assert made.python == platform.python_version()
    assert (made.dtype, made.device) == ("float32", "cpu")


def test_torch_has_no_part_where_nothing_imported_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert provenance("float32", "cpu").torch is None
