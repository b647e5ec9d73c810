"""settings: the file's are checked, said, and give way to what the caller chose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize.settings import resolve
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read, said


def test_the_file_sets_what_the_caller_left_open() -> None:
    dump = dump_of(x=normal(3, 4), settings={"heads": 2, "mask": "causal", "softcap": 20})
    reading = read(dump, heads=1)
    assert reading.settings.heads == 1
    assert reading.settings.mask == "causal"
    assert reading.settings.softcap == 20.0
    assert reading.settings.from_file == ("mask", "softcap")
    assert said(reading, "settings-from-file").startswith("the file sets mask causal, softcap 20;")


def test_nothing_is_said_where_the_file_sets_nothing() -> None:
    assert codes(read(dump_of(x=normal(3, 4), settings={"softcap": None}))) == ["no-projections"]


def test_several_masks_of_the_file_must_all_hold() -> None:
    asked = resolve({"mask": ["causal", "window(2)"]}, Choices())
    assert asked.choices.masks == ("causal", "window(2)")


def test_a_mask_of_the_caller_replaces_the_files() -> None:
    dump = dump_of(x=normal(3, 4), settings={"mask": "causal"})
    assert read(dump, masks=("window(1)",)).settings.mask == "window(1)"
    plain = read(dump, masks=("none",))
    assert plain.settings.mask is None
    assert plain.inputs.mask is None


def test_the_default_scale_is_left_to_the_width_and_shown_as_a_number() -> None:
    reading = read(dump_of(x=normal(3, 16)))
    assert reading.inputs.scale is None
    assert reading.settings.scale == 0.25


@pytest.mark.parametrize("scale, factor", [("none", 1.0), (2, 2.0), (np.float32(0.5), 0.5)])
def test_a_scale_is_a_number_or_none(scale: Any, factor: float) -> None:
    reading = read(dump_of(x=normal(3, 16)), scale=scale)
    assert reading.inputs.scale == factor
    assert reading.settings.scale == factor


@pytest.mark.parametrize(
    "name, value",
    [
        ("heads", "two"),
        ("heads", 0),
        ("heads", True),
        ("heads", 2.0),
        ("kv_heads", -1),
        ("mask", 3),
        ("mask", []),
        ("scale", "half"),
        ("scale", True),
        ("scale", float("nan")),
        ("scale", 10**400),
        ("softcap", 0),
        ("softcap", float("inf")),
        ("align", "right"),
        ("layout", "bshd"),
        ("mask_means", ["keep"]),
        ("mask_axes", "key,query"),
    ],
)
def test_a_setting_out_of_range_is_named_with_its_value(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"the file's setting {name} is ") as caught:
        resolve({name: value}, Choices())
    assert repr(value)[:40] in caught.value.message
    assert "expected" in caught.value.message


def test_a_choice_out_of_range_is_named_as_an_option() -> None:
    with pytest.raises(InputError, match="--kv-heads is 0: expected a whole number from 1"):
        resolve({}, Choices(kv_heads=0))


def test_an_unknown_setting_lists_the_known() -> None:
    with pytest.raises(InputError, match="no setting 'head'") as caught:
        resolve({"head": 2}, Choices())
    assert "did you mean 'heads'" in caught.value.hint
    assert "softcap" in caught.value.hint


def test_settings_of_4d_input_are_those_of_its_shape() -> None:
    settings = read(dump_of(**qkv((2, 6, 4, 8), (2, 3, 4, 8)))).settings
    assert (settings.heads, settings.kv_heads, settings.layout) == (6, 3, "bhld")


@pytest.mark.parametrize(
    "settings",
    [
        {"head": 2},
        {"heads": 0},
        {"mask": "causl"},
        {"mask": ""},
        {"mask": "window(3, bth)"},
        {"mask": "documents(1, 1)"},
    ],
)
def test_errors_in_the_settings_of_a_file_name_the_file(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^file\.npz: "):
        read(dump_of(x=normal(3, 4), settings=settings))


def test_errors_in_what_the_caller_said_do_not() -> None:
    with pytest.raises(InputError, match=r"^there is no mask"):
        read(dump_of(x=normal(3, 4), settings={"mask": "causal"}), masks=("causl",))
