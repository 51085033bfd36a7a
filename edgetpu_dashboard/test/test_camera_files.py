"""Pictures from files: a picture, a folder, a video."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgetpu_dashboard.camera.files import FileSource
from edgetpu_dashboard.camera.source import NoPictureError

OWN_SIZE = (0, 0)


def write(path: Path, level: int) -> None:
    """A picture of 8x6 px whose red, green and blue differ."""
    rgb = np.full((6, 8, 3), (level, level + 1, level + 2), np.uint8)
    cv2.imwrite(str(path), cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))


def test_a_picture_is_shown_for_ever(tmp_path: Path) -> None:
    write(tmp_path / "one.png", 10)
    source = FileSource(str(tmp_path / "one.png"), OWN_SIZE)
    pictures = [source.read(0.0) for _ in range(3)]
    assert [picture[0, 0].tolist() for picture in pictures] == [[10, 11, 12]] * 3
    assert pictures[0].shape == (6, 8, 3)


def test_a_folder_is_shown_by_name_and_again(tmp_path: Path) -> None:
    for name, level in (("b.png", 20), ("a.png", 10), ("C.PNG", 5)):
        write(tmp_path / name, level)
    (tmp_path / "notes.txt").write_text("not a picture")
    source = FileSource(str(tmp_path), OWN_SIZE)
    assert [source.read(0.0)[0, 0, 0] for _ in range(4)] == [5, 10, 20, 5]


def test_what_cannot_be_read_of_a_folder_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.png", 10)
    (tmp_path / "b.png").write_bytes(b"no picture")
    (tmp_path / "c.png").symlink_to(tmp_path / "c.png")
    os.mkfifo(tmp_path / "d.png")
    write(tmp_path / "e.png", 20)
    left_out: list[tuple[Path, str]] = []
    source = FileSource(str(tmp_path), OWN_SIZE, left_out=lambda *fault: left_out.append(fault))
    assert [source.read(0.0)[0, 0, 0] for _ in range(3)] == [10, 20, 10]
    b, c, d = (tmp_path / name for name in ("b.png", "c.png", "d.png"))
    kinds = "JPEG, PNG, WebP, TIFF or BMP, or PBM, PGM or PPM"
    assert left_out == [
        (b, f"{b} is not an image: expected {kinds}"),
        (c, f"{c}: Too many levels of symbolic links"),
        (d, f"{d}: expected a regular file"),
    ]


def test_a_folder_that_was_emptied_is_named_instead_of_its_last_picture(tmp_path: Path) -> None:
    write(tmp_path / "a.png", 10)
    source = FileSource(str(tmp_path), OWN_SIZE)
    source.read(0.0)
    (tmp_path / "a.png").unlink()
    with pytest.raises(NoPictureError, match="expected a video or pictures; none can be read"):
        source.read(0.0)


def test_without_loop_the_last_picture_stays(tmp_path: Path) -> None:
    write(tmp_path / "a.png", 10)
    write(tmp_path / "b.png", 20)
    source = FileSource(str(tmp_path), OWN_SIZE, loop=False)
    assert [source.read(0.0)[0, 0, 0] for _ in range(3)] == [10, 20, 20]


def test_a_video_is_shown_frame_by_frame_and_again(tmp_path: Path) -> None:
    path = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10.0, (32, 16))
    for level in (40, 120, 200):
        writer.write(np.full((16, 32, 3), level, np.uint8))
    writer.release()
    source = FileSource(str(path), OWN_SIZE)
    means = [float(source.read(0.0).mean()) for _ in range(4)]
    assert means == pytest.approx([40, 120, 200, 40], abs=2)
    source.close()


@pytest.mark.parametrize(("size", "shape"), [((4, 3), (3, 4, 3)), ((16, 0), (6, 16, 3))])
def test_pictures_are_resized(tmp_path: Path, size: tuple[int, int], shape: tuple[int, ...]) -> None:
    write(tmp_path / "one.png", 10)
    assert FileSource(str(tmp_path / "one.png"), size).read(0.0).shape == shape


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoPictureError, match=r"nowhere\.png: No such file or directory"):
        FileSource(str(tmp_path / "nowhere.png"), OWN_SIZE)


@pytest.mark.parametrize("content", [b"no picture", b""])
def test_what_is_no_picture_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.png").write_bytes(content)
    with pytest.raises(NoPictureError, match=r"broken\.png is not an image"):
        FileSource(str(tmp_path / "broken.png"), OWN_SIZE)


def test_a_picture_that_is_too_large_is_named(tmp_path: Path) -> None:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60000).to_bytes(4, "big") * 2
    (tmp_path / "large.png").write_bytes(header)
    with pytest.raises(NoPictureError, match=r"at most 67108864 px; .*large\.png has 60000x60000"):
        FileSource(str(tmp_path / "large.png"), OWN_SIZE)


@pytest.mark.parametrize("name", ["clip.mp4", ""])
def test_a_video_or_folder_without_pictures_is_named(tmp_path: Path, name: str) -> None:
    if name:
        (tmp_path / name).write_bytes(b"no video")
    with pytest.raises(NoPictureError, match="expected a video or pictures; none can be read"):
        FileSource(str(tmp_path / name), OWN_SIZE).read(0.0)


def test_an_empty_path_is_named() -> None:
    with pytest.raises(NoPictureError, match="no file: path is empty; expected a picture"):
        FileSource("", OWN_SIZE)
