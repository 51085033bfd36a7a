"""The calibration of a camera, from a file of camera_calibration or from a field of view."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from edgetpu_driver.errors import InputError, reason_of
from edgetpu_driver.files.file_access import read_file, user_path
from edgetpu_driver.files.plain_yaml import parse_yaml

_LARGEST = 1 << 16
"""Largest file, bytes: calibrations have less than 2 kB, and larger files would take seconds to read."""
_LARGEST_SIDE = 2**31 - 1
"""Largest width and height, px: more than any camera has, and accepted by every reader of CameraInfo."""


@dataclass(frozen=True)
class CameraCalibration:
    """The fields of sensor_msgs/CameraInfo that do not change from picture to picture."""

    width: int
    """px"""
    height: int
    distortion_model: str
    d: tuple[float, ...]
    k: tuple[float, ...]
    """3x3, row by row, px."""
    r: tuple[float, ...]
    """3x3."""
    p: tuple[float, ...]
    """3x4, px."""


def ideal_calibration(width: int, height: int, horizontal_fov: float) -> CameraCalibration:
    """Return the calibration of a camera without distortion; width, height: px, horizontal_fov: rad."""
    return pinhole_calibration(width, height, width / 2 / math.tan(horizontal_fov / 2))


def pinhole_calibration(width: int, height: int, focal_length: float) -> CameraCalibration:
    """Return the calibration of a camera without distortion and with a centred principal point; all in px."""
    f = focal_length
    cx, cy = (width - 1) / 2, (height - 1) / 2
    return CameraCalibration(
        width,
        height,
        "plumb_bob",
        (0.0,) * 5,
        (f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0),
        (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0),
        (f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0),
    )


def read_calibration(path: str) -> CameraCalibration:
    """Read a YAML file as camera_calibration and camera_info_manager write it; InputError with the reason."""
    try:
        content = parse_yaml(read_file(user_path(path), _LARGEST))
        return CameraCalibration(
            _side(content, "image_width"),
            _side(content, "image_height"),
            str(content["distortion_model"]),
            _numbers(content, "distortion_coefficients", 0),
            _numbers(content, "camera_matrix", 9),
            _numbers(content, "rectification_matrix", 9),
            _numbers(content, "projection_matrix", 12),
        )
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}") from None
    except InputError as error:
        raise InputError(f"{path}: expected a calibration in YAML; {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path}: expected a calibration with image_width, image_height, distortion_model, "
            "distortion_coefficients, camera_matrix, rectification_matrix and projection_matrix; "
            f"got one with a wrong or missing {reason_of(error)}"
        ) from None


def _side(content: dict[str, Any], name: str) -> int:
    side = int(content[name])
    if not 0 < side <= _LARGEST_SIDE:
        raise ValueError(f"{name}, of {side} px instead of 1 to {_LARGEST_SIDE}")
    return side


def _numbers(content: dict[str, dict[str, list[float]]], name: str, count: int) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in content[name]["data"])
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name}, of numbers that are not finite")
    if count and len(numbers) != count:
        raise ValueError(f"{name}, of {len(numbers)} numbers instead of {count}")
    return numbers
