"""Files that the command takes inputs from."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.cli.tensor_files import fitted, read_inputs, write_outputs
from edgetpu_driver.errors import InputError
from edgetpu_driver.tflite.tensor import TensorSpec

IMAGE = TensorSpec("image", (1, 2, 2, 1), np.dtype(np.uint8), 0.5, 10)
GIF = b"GIF89a" + b"\x30\x75" * 2 + bytes(3) + b"," + bytes(4) + b"\x30\x75" * 2 + b"\0\2\2\x44\1\0;"
"""30000 x 30000 px, of a format whose size is not checked: OpenCV takes minutes."""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not an image: expected JPEG, PNG, WebP, TIFF or BMP, or PBM, PGM or PPM"),
        (b"hello", "is not an image"),
        (b"\xff\xd8\xff\xe0", "is not an image"),
        (GIF, "is not an image"),
        (b"P6 # of a film\n6 6 255 ", "is damaged"),
        (b"P4\n32000 32000\n", "has 32000x32000"),
    ],
    ids=repr,
)
def test_anything_but_a_picture_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    pytest.importorskip("cv2", reason="OpenCV reads images")
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"x\.png {reason}"):
        read_inputs([IMAGE], [str(path)])


def test_a_picture_that_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="OpenCV reads images")
    path = tmp_path / "x.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (60000).to_bytes(4, "big") * 2)
    with pytest.raises(InputError, match=r"at most 67108864 px; .*x\.png has 60000x60000"):
        read_inputs([IMAGE], [str(path)])


def test_arrays_are_read_from_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"cannot read .*x\.npy: expected a regular file"):
        read_inputs([IMAGE], [str(path)])


@pytest.mark.parametrize(("given", "wanted"), [(np.uint8, np.int8), (np.uint16, np.int16)])
def test_integers_that_would_wrap_around_are_refused(given: type, wanted: type) -> None:
    spec = TensorSpec("x", (2,), np.dtype(wanted), 0.5, 0)
    with pytest.raises(InputError, match=f"expected 'x' {wanted.__name__}.2., or real numbers; got"):
        fitted(spec, np.array([1, 200]).astype(given))


@pytest.mark.parametrize("given", [np.float16, np.float64])
def test_real_numbers_of_any_precision_fit_a_float_input(given: type) -> None:
    found = fitted(TensorSpec("x", (1, 2), np.dtype(np.float32), 0.0, 0), np.array([0.5, -2.0], given))
    assert found.dtype == np.float32
    assert found.tolist() == [[0.5, -2.0]]


def test_outputs_of_any_name_are_written_to_an_archive(tmp_path: Path) -> None:
    outputs = {name: np.arange(3) for name in ("file", "allow_pickle", "a/b:0")}
    write_outputs(tmp_path / "y.npz", outputs)
    with np.load(tmp_path / "y.npz") as written:
        assert {name: written[name].tolist() for name in written.files} == {
            name: [0, 1, 2] for name in outputs
        }


def test_the_name_of_an_input_may_be_longer_than_that_of_a_file(tmp_path: Path) -> None:
    path, name = tmp_path / "x.raw", "x" * 5000
    path.write_bytes(bytes(4))
    spec = TensorSpec(name, (4,), np.dtype(np.uint8), 0.5, 0)
    assert read_inputs([spec], [f"{name}={path}"])[name].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["x.NPY", "x.NPZ", "x.Npy"])
def test_the_case_of_a_suffix_does_not_matter(tmp_path: Path, name: str) -> None:
    array = np.arange(4, dtype=np.uint8).reshape(IMAGE.shape)
    write_outputs(tmp_path / name, {"image": array})
    assert (tmp_path / name).read_bytes()[:2] in (b"\x93N", b"PK")
    np.testing.assert_array_equal(read_inputs([IMAGE], [str(tmp_path / name)])["image"], array)
