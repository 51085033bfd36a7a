"""Converts a calibration to sensor_msgs/CameraInfo."""

from __future__ import annotations

from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header

from edgetpu_dashboard.camera.calibration import CameraCalibration


def camera_info(header: Header, calibration: CameraCalibration) -> CameraInfo:
    """Make the message of a camera without binning and region of interest."""
    return CameraInfo(
        header=header,
        width=calibration.width,
        height=calibration.height,
        distortion_model=calibration.distortion_model,
        d=calibration.d,
        k=calibration.k,
        r=calibration.r,
        p=calibration.p,
    )
