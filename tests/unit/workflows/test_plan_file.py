"""A plan in a file: written whole, read back, refused with the file's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_cli.errors import InputError
from attn_cli.workflows.plan_file import check_plan_target, read_plan_file, write_plan_file

PLAN = {
    "schema": "attn.plan/1",
    "call": {"init": {"kwargs": {"name": "é"}}},
    "intent": {"heads": 4, "colour": "red"},
}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    write_plan_file(path, PLAN, force=False)
    said = read_plan_file(path)
    assert said.call["init"] == {"kwargs": {"name": "é"}}
    assert dict(said.intent) == {"heads": 4}
    assert len(said.unknown) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "is no JSON"),
        (b"[1]", "expected an object"),
        (b"{}", "neither call nor intent"),
        (b'{"schema": "attn.plan/2", "call": {}}', "schema"),
        (b'{"intent": {"heads": 0}}', "intent.heads"),
        (b"\xff\xfe\x00", ""),
        (b"[" * 100_000, "is no JSON"),
        (b" " * 1_000_001, "1000001 bytes"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_files_name(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_plan_file(str(path))
    assert caught.value.message.startswith(str(path))
    assert said in caught.value.message


@pytest.mark.parametrize("path", ["nowhere.json", ".", "a\0b.json"])
def test_what_cannot_be_read_is_said(path: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_plan_file(path)


def test_nothing_is_overwritten_unless_it_is_forced(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="already exists"):
        check_plan_target(str(path), force=False)
    write_plan_file(str(path), PLAN, force=True)
    assert path.read_text(encoding="utf-8") != "mine"
    with pytest.raises(InputError, match=r"writes \.json files only"):
        check_plan_target(str(tmp_path / "plan.yaml"), force=True)
