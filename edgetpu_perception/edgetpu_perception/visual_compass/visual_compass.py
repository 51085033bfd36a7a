"""Heading of a camera from its images alone: how far it has turned since the first one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_perception.algorithm import Frame, ImageInput, ImageLike, PerceptionAlgorithm, camera_image
from edgetpu_perception.camera_intrinsics import CameraError, Pinhole
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.visual_compass.alignment_records import View
from edgetpu_perception.visual_compass.compass_features import CompassFeatures, compass_features
from edgetpu_perception.visual_compass.orientation_tracker import OrientationTracker
from edgetpu_perception.visual_compass.orientation_tracker_state import Heading
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner

_NO_VECTOR = (math.nan,) * 3
_NO_MATRIX = (math.nan,) * 9
"""The values that are published while nothing is known: three components, and nine of a 3 x 3 covariance."""


@dataclass(frozen=True)
class HeadingResult:
    """Heading of the camera, counter-clockwise positive seen from above (REP-103).

    All numbers but the stamps and the confidence are NaN unless `valid`.
    """

    stamp: float
    """Time of the image, s."""
    valid: bool
    confidence: float
    """0..1"""
    reference_stamp: float = math.nan
    """Time of the image at which yaw was set to zero, s."""
    previous_stamp: float = math.nan
    """Time of the previous image, s; the rates are means since then."""
    yaw: float = math.nan
    """Yaw since the reference, rad, unwrapped: a full turn to the left is 2 pi."""
    yaw_sigma: float = math.nan
    """One standard deviation, rad."""
    yaw_rate: float = math.nan
    """Mean since the previous image, rad/s."""
    yaw_rate_sigma: float = math.nan
    """One standard deviation, rad/s."""
    angular_velocity: tuple[float, ...] = _NO_VECTOR
    """Mean since the previous image, about x (right), y (down), z (forward) of the optical frame, rad/s."""
    angular_velocity_covariance: tuple[float, ...] = _NO_MATRIX
    """3x3, row by row, rad^2/s^2."""


class VisualCompass(PerceptionAlgorithm[HeadingResult]):
    """Yaw and angular velocity of a camera, as odometry that drifts while new views appear (REP-105).

        compass = VisualCompass(camera=Pinhole(width, height, fx, fy, cx, cy))
        result = compass.update(image, stamp)

    Each view is aligned to a keyframe by the rotation that explains the image motion. The heading therefore
    does not drift in a part of the scene that was seen before, and recognising the first view corrects the
    drift since. If the camera is also moved, distant things must be in view, as only these show its rotation.

    The first image only sets the reference; its result is not valid. If inference runs elsewhere, use `bind`,
    `preprocess` and `postprocess` instead of `update`.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        camera: Pinhole | None = None,
        *,
        up: tuple[float, float, float] = (0.0, -1.0, 0.0),
        size: int = 64,
        min_confidence: float = 0.2,
        looks_ahead: bool = False,
    ) -> None:
        """`engine`: runs the model; None for the suite's own graph on the CPU.

        `camera`: intrinsics of the images; may be set or changed later. `up`: the vertical in the optical
        frame of the first image, for a tilted camera. `size`: width and height of the suite's own graph, px.
        Results below `min_confidence`, 0..1, are not valid. `looks_ahead`: the camera looks in the direction
        of motion, except for its tilt, as on most wheeled robots; the growth of the picture then
        distinguishes driving from turning. Raises ModelUnsupportedError for an engine with an unsuitable
        model, and CameraError for an `up` without a direction.
        """
        length = math.hypot(*up)
        if not (math.isfinite(length) and length > 0):
            raise CameraError(f"expected an upward direction in the optical frame; got {up}")
        super().__init__(camera, min_confidence)
        self._size = size
        self._up = np.array(up) / length
        self._looks_ahead = looks_ahead
        self._outputs: Sequence[TensorSpec] = ()
        self._features: CompassFeatures | None = None
        self._aligner: RotationAligner | None = None
        self._aligned_camera: Pinhole | None = None
        self._tracker: OrientationTracker | None = None
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph; optical flow uses the same one."""
        return features.name(self._size, self._size)

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Accept the suite's own features and the maps of Gabor models."""
        compass_features(image, outputs)  # refuses other models; the camera decides how outputs are read
        self._outputs = outputs
        self._aligned_camera = None
        self._tracker = None

    def reset(self) -> None:
        """Forget all views; the next image sets yaw to zero."""
        self._tracker = None

    def update(self, image: ImageLike, stamp: float = 0.0) -> HeadingResult:
        """Measure the heading in an image, uint8 [H, W] or [H, W, 3] RGB, taken at `stamp` seconds.

        Raises the errors of PerceptionAlgorithm.update, and CameraError without intrinsics of this size.
        """
        checked = camera_image(image)
        self._check_camera(checked.width, checked.height)
        return super().update(checked, stamp)

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> HeadingResult:
        """Second half of `update`: make the result from a frame and the model's outputs by name.

        Without intrinsics of the image's size the result is not valid. That is no error here, as intrinsics
        may arrive later than images.
        """
        aligner = self._aligner_for(frame, self._bound_input())
        if aligner is None:
            return HeadingResult(frame.stamp, False, 0.0)
        assert self._features is not None
        view = View(self._features.read(outputs))
        if self._tracker is None:
            self._tracker = OrientationTracker(aligner, self._up, self._looks_ahead)
        heading = self._tracker.update(view, frame.stamp)
        reference = self._tracker.reference_stamp
        if heading is None or heading.confidence < self.min_confidence:
            confidence = heading.confidence if heading else 0.0
            return HeadingResult(frame.stamp, False, confidence, reference)
        return _result(frame.stamp, reference, heading)

    def _check_camera(self, width: int, height: int) -> None:
        camera = self.camera
        if camera is None:
            raise CameraError("expected the camera's intrinsics to measure angles with; there are none")
        if (camera.width, camera.height) != (width, height):
            raise CameraError(
                f"expected an image of {camera.width}x{camera.height} px, as the intrinsics are for; "
                f"got {width}x{height}"
            )

    def _aligner_for(self, frame: Frame, image: ImageInput) -> RotationAligner | None:
        """The aligner for the present camera; None if the intrinsics are missing or for another image size.

        Another camera or region restarts the filter.
        """
        camera = frame.camera(self.camera)
        if camera is None:
            return None
        if self._aligner is None or camera != self._aligned_camera:
            self._features = compass_features(image, self._outputs, camera.width, camera.height)
            self._aligner = RotationAligner(camera, image.height, image.width, self._features.grid)
            self._aligned_camera = camera
            self._tracker = None
        return self._aligner


def _result(stamp: float, reference: float, heading: Heading) -> HeadingResult:
    return HeadingResult(
        stamp,
        True,
        heading.confidence,
        reference,
        heading.previous_stamp,
        heading.yaw,
        heading.yaw_sigma,
        heading.yaw_rate,
        heading.yaw_rate_sigma,
        tuple(heading.velocity.tolist()),
        tuple(heading.velocity_covariance.ravel().tolist()),
    )
