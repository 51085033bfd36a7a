"""What a camera takes its pictures from, and what keeps it from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgetpu_driver.errors import EdgeTpuError

Pixels = npt.NDArray[np.uint8]


class NoPictureError(EdgeTpuError):
    """There is no picture, and the message says why; there may be one later."""


class Source(Protocol):
    """A sequence of pictures."""

    waits: bool
    """Whether `read` itself waits for the next picture, as that of a webcam does."""

    def read(self, seconds: float) -> Pixels:
        """Return the picture at a time since the start, uint8 [H, W, 3] RGB. Raises NoPictureError."""

    def close(self) -> None:
        """Release what the source holds."""


@dataclass(frozen=True)
class CameraSettings:
    """Which pictures are wanted."""

    source: str = "wandering_dot"
    """`webcam`, `file`, `scene` or the name of a pattern."""
    device: str = "/dev/video0"
    """Of the webcam: a path or a number."""
    path: str = ""
    """Of the picture, the folder of pictures or the video."""
    width: int = 0
    height: int = 0
    """Of the pictures, px; 0: the source's own."""
    frame_rate: float = 30.0
    """Pictures per second."""
    exposure: float = 0.0
    """Of the webcam, s; 0: automatic."""
    gain: int = -1
    """Of the webcam, in its own units; -1: as it is."""
    pixel_format: str = ""
    """Of the webcam, a code of four characters; empty: as it is."""
    loop: bool = True
    """Whether files start again at their end."""
