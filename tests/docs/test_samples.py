"""The sample files are what make_samples.py makes, small, and each is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_inputs.make_samples import HERE
from sample_inputs.make_samples import samples as made

FEW_KILOBYTES = 9 * 1024
WRITTEN = {"my_attention.py"}  # by hand: it is code, and no array


@pytest.mark.parametrize("name, content", made().items(), ids=made())
def test_sample_is_made_again_byte_for_byte(name: str, content: bytes) -> None:
    assert (HERE / name).read_bytes() == content
    assert len(content) <= FEW_KILOBYTES


def test_every_sample_is_made_and_explained(samples: Path) -> None:
    readme = (samples / "README.md").read_text(encoding="utf-8")
    files = (path for path in samples.rglob("*") if path.is_file())
    shipped = {str(path.relative_to(samples)) for path in files if "__pycache__" not in path.parts}
    assert shipped - {"README.md", "encoding.py", "make_samples.py"} == {*made(), *WRITTEN}
    assert [name for name in (*made(), *WRITTEN) if f"`{name}`" not in readme] == []
