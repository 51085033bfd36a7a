"""Images of the two cameras of a run, as a file and as ROS messages."""

from __future__ import annotations

import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import Image

from edgetpu_dashboard.scene.scene import Scene, render

Frames = NDArray[np.uint8]
"""Frames of a camera, [frames, height, width, 3], RGB."""


def write_frames(path: Path, scene: Scene) -> Frames:
    """Render the scene into a file, so that a restarted camera does not have to render it again."""
    frames = np.stack(list(render(scene)))
    np.save(path, frames)
    return frames


def image_message(frame: NDArray[np.uint8], frame_id: str = "") -> Image:
    """An rgb8 image without a stamp."""
    height, width, _ = frame.shape
    message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
    message.data = array.array("B", np.ascontiguousarray(frame).tobytes())
    message.header.frame_id = frame_id
    return message
