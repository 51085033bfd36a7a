"""Accuracy of the visual compass on a clip of a walking person's camera, which recorded its orientation."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.baseline_compass import lucas_kanade
from accuracy.exact_features import ExactFeatures
from edgetpu_driver.engines.protocol import Engine
from edgetpu_perception.camera_intrinsics import Pinhole
from edgetpu_perception.visual_compass.visual_compass import VisualCompass
from measured_figures.row import Row
from testdata import DATA

CLIP, CLIP_ORIENTATION = "compass/max-heromode.mp4", "compass/max-heromode_orientation.csv"
"""Clip of a walking person's camera and the camera's orientation track: names in testdata."""
CLIP_FOCAL = 205.7 / 424
"""Focal length of that camera, as a share of the width of its picture; inferred, not calibrated."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Walk:
    """The images of the walk and the true yaw, deg."""

    images: tuple[NDArray[np.uint8], ...]
    times: tuple[float, ...]
    """s"""
    camera: Pinhole
    true_yaw: Floats

    @classmethod
    def read(cls) -> Walk:
        """Read clip and track from the test data."""
        with DATA.path(CLIP_ORIENTATION).open() as file:
            table = np.array(
                [[float(cell) for cell in row] for row in itertools.islice(csv.reader(file), 1, None)]
            )
        clip, images = cv2.VideoCapture(str(DATA.path(CLIP))), []
        for _ in table:
            present, picture = clip.read()
            if not present:
                break
            images.append(np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), np.uint8))
        height, width = images[0].shape
        focal = CLIP_FOCAL * width
        camera = Pinhole(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)
        count = len(images)
        yaw = table[:count, 14] - table[0, 14]
        return cls(tuple(images), tuple(table[:count, 1].tolist()), camera, yaw)

    def follow(self, engine: Engine) -> Floats:
        """Yaw by the compass, deg; NaN where not valid."""
        compass = VisualCompass(engine, self.camera)
        results = [compass.update(image, time) for image, time in zip(self.images, self.times, strict=True)]
        return np.degrees([result.yaw for result in results])

    def rmse(self, yaw: Floats) -> float:
        """Root mean square error of the valid yaws, deg."""
        return float(np.sqrt(np.nanmean(np.square(yaw - self.true_yaw))))

    def correlation(self, yaw: Floats) -> float:
        """Correlation of the valid yaws with the truth."""
        seen = np.isfinite(yaw)
        return float(np.corrcoef(yaw[seen], self.true_yaw[seen])[0, 1])


def is_available() -> bool:
    """Whether the test data has the clip."""
    return DATA.find(CLIP) is not None


def measure(engine: Engine) -> list[Row]:
    """Rows of the walk."""
    case, walk = "walking camera against its own orientation track", Walk.read()
    measured, exact = walk.follow(engine), walk.follow(ExactFeatures())
    plain, full = (lucas_kanade(walk.images, walk.camera, size) for size in ((64, 64), None))

    def row(
        metric: str,
        of: Callable[[Floats], float],
        unit: str,
        reach: float,
        better: Literal["lower", "higher"],
    ) -> Row:
        return Row(
            "compass",
            case,
            metric,
            of(measured),
            unit,
            reach,
            better,
            of(plain),
            of(exact),
            full_size_baseline=of(full),
        )

    valid = 100.0 * float(np.mean(np.isfinite(measured[1:])))
    return [
        row("yaw RMSE", walk.rmse, "deg", 1.0, "lower"),
        row("correlation", walk.correlation, "", 0.98, "higher"),
        Row("compass", case, "valid frames", valid, "%", None, "higher"),
    ]
