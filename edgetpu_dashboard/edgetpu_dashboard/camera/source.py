"""The interface of sources of pictures, their settings and their error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgetpu_driver.errors import EdgeTpuError

Pixels = npt.NDArray[np.uint8]


class NoPictureError(EdgeTpuError):
    """There is no picture, for the reason in the message; there may be one later."""


class Source(Protocol):
    """A sequence of pictures."""

    waits: bool
    """Whether `read` waits for the next picture, as with a webcam."""

    def read(self, seconds: float) -> Pixels:
        """Return the picture at a time since the start, uint8 [H, W, 3] RGB. Raises NoPictureError."""

    def close(self) -> None:
        """Release the source's resources."""


@dataclass(frozen=True)
class CameraSettings:
    """Settings of a source of pictures."""

    source: str = "wandering_dot"
    """`webcam`, `file`, `scene` or the name of a pattern."""
    device: str = "/dev/video0"
    """Path or number of the webcam."""
    path: str = ""
    """Path of the picture, the folder of pictures or the video."""
    width: int = 0
    height: int = 0
    """Size of the pictures, px; 0: the source's own."""
    frame_rate: float = 30.0
    """Pictures per second."""
    exposure: float = 0.0
    """Exposure time of the webcam, s; 0: automatic."""
    gain: int = -1
    """Gain of the webcam, in its units; -1: unchanged."""
    pixel_format: str = ""
    """Pixel format of the webcam, a code of four characters; empty: unchanged."""
    loop: bool = True
    """Whether files start again at their end."""
