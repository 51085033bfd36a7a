"""A webcam, through V4L2, the video interface of Linux."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from edgetpu_dashboard.camera.source import CameraSettings, NoPictureError, Pixels

EXPOSURE_UNIT = 1e-4
"""Unit of V4L2_CID_EXPOSURE_ABSOLUTE, s."""
EXPOSURE_MANUAL, EXPOSURE_APERTURE_PRIORITY = 1, 3
"""V4L2_EXPOSURE_MANUAL and, as the automatic exposure of UVC cameras, V4L2_EXPOSURE_APERTURE_PRIORITY of enum
v4l2_exposure_auto_type."""


def _v4l2(device: str) -> cv2.VideoCapture:
    return cv2.VideoCapture(int(device) if device.isdecimal() else device, cv2.CAP_V4L2)


class Webcam:
    """The pictures of a webcam as they arrive; `read` waits for the next one, up to OpenCV's 10 s."""

    waits = True

    def __init__(self, settings: CameraSettings, open_capture: Callable[[str], Any] = _v4l2) -> None:
        """Open the device. Raises NoPictureError."""
        self._device = settings.device
        path = f"/dev/video{self._device}" if self._device.isdecimal() else self._device
        if open_capture is _v4l2 and not os.path.exists(path):
            raise NoPictureError(f"no webcam: there is no {path}; `ls /dev/video*` lists the devices")
        self._capture = open_capture(self._device)
        if not self._capture.isOpened():
            self._capture.release()
            raise NoPictureError(
                f"webcam {self._device} cannot be opened: is it in use, or is this user not in the group "
                "video?"
            )
        self._set_up(settings)

    def read(self, seconds: float) -> Pixels:  # noqa: ARG002 - the device has its own time
        """Return the next picture; NoPictureError if none comes."""
        found, frame = self._capture.read()
        if not found or frame is None:
            raise NoPictureError(f"webcam {self._device} gives no pictures: was it unplugged?")
        return np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), np.uint8)

    def close(self) -> None:
        """Close the device."""
        self._capture.release()

    def _set_up(self, settings: CameraSettings) -> None:
        """Set format, size and rate, in this order; a camera takes the nearest values that it has."""
        if settings.pixel_format:
            code = cv2.VideoWriter.fourcc(*settings.pixel_format)
            self._capture.set(cv2.CAP_PROP_FOURCC, code)
        for key, value in (
            (cv2.CAP_PROP_FRAME_WIDTH, settings.width),
            (cv2.CAP_PROP_FRAME_HEIGHT, settings.height),
        ):
            if value:
                self._capture.set(key, value)
        self._capture.set(cv2.CAP_PROP_FPS, settings.frame_rate)
        self._capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # the newest picture, not one that waited
        if settings.exposure:
            self._capture.set(cv2.CAP_PROP_AUTO_EXPOSURE, EXPOSURE_MANUAL)
            self._capture.set(cv2.CAP_PROP_EXPOSURE, max(1, round(settings.exposure / EXPOSURE_UNIT)))
        else:
            self._capture.set(cv2.CAP_PROP_AUTO_EXPOSURE, EXPOSURE_APERTURE_PRIORITY)
        if settings.gain >= 0:
            self._capture.set(cv2.CAP_PROP_GAIN, settings.gain)
