"""The intrinsics of the camera, from sensor_msgs/CameraInfo or from an assumed field of view."""

from __future__ import annotations

import math

from sensor_msgs.msg import CameraInfo

from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_perception.camera_intrinsics import CameraError, Pinhole


class Calibration:
    """The camera of the last camera_info; None, with the reason in `problem`, if that is unusable."""

    def __init__(self, rectified: bool, horizontal_fov: float = 0.0) -> None:
        """`horizontal_fov`: assumed for images without a usable camera_info, rad; 0: none is assumed."""
        self._rectified = rectified
        self._horizontal_fov = horizontal_fov
        self._seen: tuple[object, ...] | None = None
        self.camera: Pinhole | None = None
        self.problem = ""

    def update(self, info: CameraInfo) -> bool:
        """Apply a message; return False if its content has not changed."""
        roi = (info.roi.x_offset, info.roi.y_offset, info.roi.width, info.roi.height)
        source = [*info.p[0:3], *info.p[4:7], *info.p[8:11]] if self._rectified else info.k
        k = [float(value) for value in source]
        d = [] if self._rectified else [float(value) for value in info.d]
        binning = (info.binning_x, info.binning_y)
        seen = (info.width, info.height, *k, *d, info.distortion_model, binning, roi)
        if seen == self._seen:
            return False
        self._seen = seen
        self.camera, self.problem = None, ""
        if not any(k):
            self.problem = f"camera_info is uncalibrated: {'P' if self._rectified else 'K'} is 0"
            return True
        try:
            self.camera = Pinhole.from_camera_info(
                info.width, info.height, k, d, info.distortion_model, binning, roi
            )
        except CameraError as error:
            self.problem = one_line(f"camera_info: {error}")
        return True

    def camera_for(self, width: int, height: int) -> Pinhole | None:
        """The camera for images of this size: the calibrated one, or one of the assumed field of view."""
        if self.camera is not None or not self._horizontal_fov:
            return self.camera
        focal_length = width / 2 / math.tan(self._horizontal_fov / 2)
        return Pinhole(width, height, focal_length, focal_length, (width - 1) / 2, (height - 1) / 2)

    def mismatch(self, width: int, height: int) -> str:
        """Return why the calibration does not fit images of this size; empty if it does or there is none."""
        camera = self.camera
        if camera is None or (camera.width, camera.height) == (width, height):
            return ""
        return (
            f"camera_info is for images of {camera.width}x{camera.height} px; "
            f"got {width}x{height}, so there are no angles"
        )
