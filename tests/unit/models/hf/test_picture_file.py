"""Pictures of every kind of file, and files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attn_cli.errors import InputError
from attn_cli.models.hf import picture_file
from attn_cli.models.hf.picture_file import check_file, open_picture

COLOURS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)


def plain() -> Image.Image:
    return Image.fromarray(COLOURS)


def test_colours_as_they_are(tmp_path: Path) -> None:
    plain().save(tmp_path / "a.png")
    opened, said = open_picture(tmp_path / "a.png")
    np.testing.assert_array_equal(np.asarray(opened), COLOURS)
    assert said == ()


def test_upright_as_the_camera_says(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x112] = 6  # a quarter to the right
    plain().save(tmp_path / "a.png", exif=turned)
    opened, _ = open_picture(tmp_path / "a.png")
    np.testing.assert_array_equal(np.asarray(opened), np.rot90(COLOURS, -1))


def test_the_first_of_an_animation(tmp_path: Path) -> None:
    black, white = Image.new("RGB", (3, 2)), Image.new("RGB", (3, 2), "white")
    black.save(tmp_path / "a.gif", save_all=True, append_images=[white])
    opened, (said,) = open_picture(tmp_path / "a.gif")
    assert not np.asarray(opened).any()
    assert said.message == "the file holds 2 pictures: the first one is given"


def test_sixteen_bits_of_grey_are_not_cut_off(tmp_path: Path) -> None:
    grey = np.array([[0, 255, 256, 32768, 65535]], np.uint16)
    Image.fromarray(grey).save(tmp_path / "a.png")
    opened, (said,) = open_picture(tmp_path / "a.png")
    assert np.asarray(opened)[0, :, 0].tolist() == [0, 0, 1, 128, 255]
    assert "16 bits" in said.message


@pytest.mark.parametrize("mode", ["CMYK", "L", "1", "P", "YCbCr", "RGBA", "LA"])
def test_every_mode_becomes_three_colours(mode: str, tmp_path: Path) -> None:
    file = tmp_path / ("a.jpg" if mode in ("CMYK", "YCbCr") else "a.png")
    plain().convert(mode).save(file)
    opened, said = open_picture(file)
    assert (opened.mode, opened.size) == ("RGB", (6, 4))
    assert [each.message for each in said if "transparent" in each.message] == (
        ["what is transparent in the picture is given as if it were not"] if "A" in mode else []
    )


def test_numbers_whose_white_is_unknown(tmp_path: Path) -> None:
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(InputError, match="holds 32 bits a pixel"):
        open_picture(tmp_path / "a.tiff")


@pytest.mark.parametrize("content", [b"hello", b"\x89PNG\r\n\x1a\n\0\0", b"GIF89a", b"BM"])
def test_files_that_are_no_picture(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(InputError, match="is not a picture that can be read"):
        open_picture(tmp_path / "a.png")


def test_half_a_picture(tmp_path: Path) -> None:
    Image.fromarray(np.resize(COLOURS, (64, 64, 3))).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is not a picture that can be read"):
        open_picture(tmp_path / "a.png")


def test_a_picture_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_file, "MOST_PIXELS", 23)
    plain().save(tmp_path / "a.png")
    with pytest.raises(InputError, match="is 6 × 4 pixels: attn reads at most 23"):
        open_picture(tmp_path / "a.png")
    Image.new("1", (1 << 15, 1 << 14)).save(tmp_path / "bomb.png")
    with pytest.raises(InputError, match="holds more than the"):
        open_picture(tmp_path / "bomb.png")


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    for path, said in (
        (tmp_path, "is a folder"),
        (tmp_path / "nowhere.png", "no such file"),
        (Path("/dev/null"), "is no regular file"),
        (tmp_path / "empty.png", "the file is empty"),
    ):
        with pytest.raises(InputError, match=said):
            check_file(path)
