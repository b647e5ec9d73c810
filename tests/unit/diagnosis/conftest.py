"""The files of impls/ are material of the tests, not tests."""

from __future__ import annotations

collect_ignore = ["impls"]
