"""The calibration of a camera, from a file or from a field of view."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from edgetpu_dashboard.camera.calibration import ideal_calibration, read_calibration
from edgetpu_driver.errors import InputError

FILE = {
    "image_width": 640,
    "image_height": 480,
    "camera_name": "front",
    "distortion_model": "plumb_bob",
    "distortion_coefficients": {"rows": 1, "cols": 5, "data": [0.1, -0.2, 0, 0, 0.01]},
    "camera_matrix": {"rows": 3, "cols": 3, "data": [500, 0, 320, 0, 501, 240, 0, 0, 1]},
    "rectification_matrix": {"rows": 3, "cols": 3, "data": [1, 0, 0, 0, 1, 0, 0, 0, 1]},
    "projection_matrix": {"rows": 3, "cols": 4, "data": [490, 0, 321, 0, 0, 491, 241, 0, 0, 0, 1, 0]},
}


def write(path: Path, content: object) -> str:
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_field_of_view_gives_the_focal_length() -> None:
    found = ideal_calibration(640, 480, math.radians(90))
    assert found.k == pytest.approx((320, 0, 319.5, 0, 320, 239.5, 0, 0, 1))
    assert found.p == pytest.approx((320, 0, 319.5, 0, 0, 320, 239.5, 0, 0, 0, 1, 0))
    assert found.d == (0.0,) * 5


def test_a_file_of_camera_calibration_is_read(tmp_path: Path) -> None:
    found = read_calibration(write(tmp_path / "front.yaml", FILE))
    assert (found.width, found.height, found.distortion_model) == (640, 480, "plumb_bob")
    assert found.d == (0.1, -0.2, 0.0, 0.0, 0.01)
    assert (found.k[4], found.p[0]) == (501.0, 490.0)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({**FILE, "camera_matrix": {"data": [1, 2]}}, "camera_matrix, of 2 numbers instead of 9"),
        ({key: value for key, value in FILE.items() if key != "image_width"}, "'image_width'"),
        ([1, 2], "expected a calibration with image_width"),
        ({**FILE, "image_width": math.inf}, "wrong or missing cannot convert float infinity to integer"),
        ({**FILE, "image_height": -1}, "image_height, of -1 px instead of 1 to"),
        (
            {**FILE, "camera_matrix": {"data": [math.nan] * 9}},
            "camera_matrix, of numbers that are not finite",
        ),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, content: object, reason: str) -> None:
    with pytest.raises(InputError, match=rf"front\.yaml: .*{reason}"):
        read_calibration(write(tmp_path / "front.yaml", content))


def test_a_file_that_is_no_yaml_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "front.yaml").write_text("{")
    with pytest.raises(InputError, match="expected a calibration in YAML"):
        read_calibration(str(tmp_path / "front.yaml"))
    with pytest.raises(InputError, match="No such file"):
        read_calibration(str(tmp_path / "nowhere.yaml"))
