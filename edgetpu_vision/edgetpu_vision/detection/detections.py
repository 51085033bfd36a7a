"""The result of a detector for an image."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

InstanceMap = NDArray[np.uint8] | NDArray[np.uint16]
"""Instance numbers, [rows, columns] of an image."""


@dataclass(frozen=True, slots=True)
class OrientedBox:
    """A box that may be turned, in px of the image."""

    x: float
    """x of the centre, right positive, px."""
    y: float
    """y of the centre, down positive, px."""
    width: float
    """Extent along its own x axis, px."""
    height: float
    """Extent along its own y axis, px."""
    angle: float
    """Angle from the image's x axis to the box's x axis, positive towards the image's y axis, rad."""


@dataclass(frozen=True, slots=True)
class Detection:
    """One object, with its box in px of the image; (0, 0) is the upper left corner of the first pixel."""

    class_id: int
    """Number of the class as the model counts."""
    label: str
    """Name of the class; "" if unknown."""
    score: float
    """Score, 0..1."""
    x_min: float
    """Left edge, px."""
    y_min: float
    """Upper edge, px."""
    x_max: float
    """Right edge, px."""
    y_max: float
    """Lower edge, px."""
    oriented: OrientedBox | None = None
    """The box of a model of oriented boxes; the edges above are then those of an upright box around it."""

    @property
    def width(self) -> float:
        """Width of the box, px of the image."""
        return self.x_max - self.x_min

    @property
    def height(self) -> float:
        """Height of the box, px of the image."""
        return self.y_max - self.y_min

    @property
    def center(self) -> tuple[float, float]:
        """Centre of the box, x and y, px of the image."""
        return (self.x_min + self.x_max) / 2, (self.y_min + self.y_max) / 2


@dataclass(frozen=True, slots=True)
class Detections:
    """The objects in one image, the highest score first."""

    stamp: float
    """Time of the image, s."""
    image_width: int
    """Width of the image, px."""
    image_height: int
    """Height of the image, px."""
    detections: tuple[Detection, ...]
    instances: InstanceMap | None = field(default=None, compare=False, repr=False)
    """Masks from instance segmentation, [image_height, image_width]: 1 where the first detection is, 2 where
    the second is, and so on; 0 elsewhere. Where masks overlap, the highest score wins. None without masks."""

    @property
    def valid(self) -> bool:
        """Whether any object was found."""
        return bool(self.detections)

    @property
    def confidence(self) -> float:
        """The highest score, 0..1; 0 if nothing was found."""
        return self.detections[0].score if self.detections else 0.0
