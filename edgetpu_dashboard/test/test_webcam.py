"""The settings requested from a webcam, and the messages if it gives no pictures."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from edgetpu_dashboard.camera.source import CameraSettings, NoPictureError
from edgetpu_dashboard.camera.webcam import Webcam


class FakeCapture:
    """In place of cv2.VideoCapture."""

    def __init__(self, *, opened: bool = True, frames: int = 1) -> None:
        self.asked: list[tuple[int, float]] = []
        self.released = False
        self._opened, self._frames = opened, frames

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return self._opened

    def set(self, key: int, value: float) -> bool:
        self.asked.append((key, value))
        return True

    def read(self) -> tuple[bool, Any]:
        self._frames -= 1
        return (True, np.full((2, 3, 3), (1, 2, 3), np.uint8)) if self._frames >= 0 else (False, None)

    def release(self) -> None:
        self.released = True


def asked(settings: CameraSettings) -> list[tuple[int, float]]:
    capture = FakeCapture()
    Webcam(settings, lambda _device: capture)
    return capture.asked


def test_pictures_come_as_rgb() -> None:
    webcam = Webcam(CameraSettings(), lambda _device: FakeCapture())
    assert webcam.read(0.0)[0, 0].tolist() == [3, 2, 1]


def test_by_default_only_rate_and_automatic_exposure_are_asked_for() -> None:
    assert asked(CameraSettings(frame_rate=25.0)) == [
        (cv2.CAP_PROP_FPS, 25.0),
        (cv2.CAP_PROP_BUFFERSIZE, 1),
        (cv2.CAP_PROP_AUTO_EXPOSURE, 3),
    ]


def test_format_comes_before_size_and_size_before_rate() -> None:
    keys = [key for key, _ in asked(CameraSettings(pixel_format="MJPG", width=1280, height=720))]
    assert keys[:4] == [
        cv2.CAP_PROP_FOURCC,
        cv2.CAP_PROP_FRAME_WIDTH,
        cv2.CAP_PROP_FRAME_HEIGHT,
        cv2.CAP_PROP_FPS,
    ]


def test_an_exposure_is_asked_for_in_units_of_100_microseconds() -> None:
    wanted = asked(CameraSettings(exposure=0.02, gain=7))
    assert wanted[-3:] == [
        (cv2.CAP_PROP_AUTO_EXPOSURE, 1),
        (cv2.CAP_PROP_EXPOSURE, 200),
        (cv2.CAP_PROP_GAIN, 7),
    ]


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(NoPictureError, match=r"no webcam: there is no /dev/video987"):
        Webcam(CameraSettings(device="987"))


def test_a_device_that_cannot_be_opened_is_released() -> None:
    capture = FakeCapture(opened=False)
    with pytest.raises(NoPictureError, match="cannot be opened: is it in use"):
        Webcam(CameraSettings(), lambda _device: capture)
    assert capture.released


def test_a_device_that_stops_is_named() -> None:
    webcam = Webcam(CameraSettings(device="/dev/video0"), lambda _device: FakeCapture(frames=0))
    with pytest.raises(NoPictureError, match="webcam /dev/video0 gives no pictures: was it unplugged"):
        webcam.read(0.0)
