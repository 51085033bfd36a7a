"""The camera of the images, from sensor_msgs/CameraInfo."""

from __future__ import annotations

from sensor_msgs.msg import CameraInfo

from edgetpu_perception.camera import CameraError, Pinhole


class Calibration:
    """Follows camera_info: `camera` is None until a usable one has come, `problem` says why not."""

    def __init__(self, rectified: bool) -> None:
        self._rectified = rectified
        self._seen: tuple[object, ...] | None = None
        self.camera: Pinhole | None = None
        self.problem = ""

    def update(self, info: CameraInfo) -> bool:
        """Take over a message; False when it says nothing new."""
        roi = (info.roi.x_offset, info.roi.y_offset, info.roi.width, info.roi.height)
        if self._rectified:
            k = [*info.p[0:3], *info.p[4:7], *info.p[8:11]]
            d: list[float] = []
        else:
            k, d = list(info.k), list(info.d)
        binning = (info.binning_x, info.binning_y)
        seen = (info.width, info.height, *k, *d, info.distortion_model, binning, roi)
        if seen == self._seen:
            return False
        self._seen = seen
        self.camera, self.problem = None, ""
        try:
            self.camera = Pinhole.from_camera_info(
                info.width, info.height, k, d, info.distortion_model, binning, roi
            )
        except CameraError as error:
            self.problem = f"camera_info: {error}"
        return True

    def mismatch(self, width: int, height: int) -> str:
        """Say why the calibration does not fit images of this size; empty when it does or there is none."""
        camera = self.camera
        if camera is None or (camera.width, camera.height) == (width, height):
            return ""
        return (
            f"camera_info is for images of {camera.width}x{camera.height} px; "
            f"got {width}x{height}, so there are no bearings"
        )
