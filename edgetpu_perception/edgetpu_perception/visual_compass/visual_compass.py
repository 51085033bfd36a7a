"""Heading of a camera from its images alone: how far it has turned since the first one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import Engine
from edgetpu_driver.tensor import TensorSpec
from edgetpu_perception.algorithm import Frame, ImageInput, ImageLike, PerceptionAlgorithm, camera_image
from edgetpu_perception.graphs import band_pass_features as features
from edgetpu_perception.images.pinhole import CameraError, Pinhole
from edgetpu_perception.visual_compass.compass_features import CompassFeatures, compass_features
from edgetpu_perception.visual_compass.heading_filter import HeadingFilter
from edgetpu_perception.visual_compass.heading_filter_state import Heading
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner, View

_NO_VECTOR = (math.nan,) * 3
_NO_MATRIX = (math.nan,) * 9


@dataclass(frozen=True)
class HeadingResult:
    """How the camera is turned, counter-clockwise positive seen from above (REP-103).

    All numbers but the stamps and the confidence are NaN unless `valid`.
    """

    stamp: float
    """Time of the image, s."""
    valid: bool
    confidence: float
    """0..1"""
    reference_stamp: float = math.nan
    """Time of the image at which yaw was last set to zero, s."""
    previous_stamp: float = math.nan
    """Time of the image since which the rates are means, s."""
    yaw: float = math.nan
    """Since the reference, unwrapped: a full turn to the left is 2 pi, rad."""
    yaw_sigma: float = math.nan
    yaw_rate: float = math.nan
    """Mean since the previous image, rad/s."""
    yaw_rate_sigma: float = math.nan
    angular_velocity: tuple[float, ...] = _NO_VECTOR
    """Mean since the previous image, about x (right), y (down), z (forward) of the optical frame, rad/s."""
    angular_velocity_covariance: tuple[float, ...] = _NO_MATRIX
    """3x3, row by row, rad^2/s^2."""


class VisualCompass(PerceptionAlgorithm[HeadingResult]):
    """Yaw and angular velocity of a camera, as odometry: it drifts while new views come (REP-105).

        compass = VisualCompass(camera=Pinhole(width, height, fx, fy, cx, cy))
        result = compass.update(image, stamp)

    Each view is aligned to a stored one, a keyframe, by the rotation that explains the image motion; so the
    heading does not drift while the camera looks where it looked before, and when the first view comes back
    what went wrong since is taken out. When the camera is carried along, only what is far away tells its
    rotation; that has to be in view.

    `update` runs the model on `engine`; without one the suite's own graph runs on the CPU. Where inference is
    somebody else's, `bind` tells what model it is, and `preprocess` and `postprocess` are the two halves of
    `update`. The first image only sets the reference, so its result is not valid.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        camera: Pinhole | None = None,
        *,
        up: tuple[float, float, float] = (0.0, -1.0, 0.0),
        min_confidence: float = 0.2,
    ) -> None:
        """`camera`: intrinsics of the images; it may be set, and changed, later.

        `up`: the vertical in the optical frame of the first image, for a camera that is mounted at a tilt.
        Results below `min_confidence` are not valid. Raises ModelUnsupportedError for an engine with another
        model, and CameraError for an `up` without a direction.
        """
        length = math.hypot(*up)
        if not (math.isfinite(length) and length > 0):
            raise CameraError(f"expected an upward direction in the optical frame; got {up}")
        super().__init__(camera, min_confidence)
        self._up = np.array(up) / length
        self._features: CompassFeatures | None = None
        self._aligner: RotationAligner | None = None
        self._aligned_camera: Pinhole | None = None
        self._filter: HeadingFilter | None = None
        self._use_engine(engine)

    @property
    def model(self) -> str:
        """Name of the suite's own graph for it; the same as of OpticalFlow."""
        return features.name()

    def _recognise(self, image: ImageInput, outputs: Sequence[TensorSpec]) -> None:
        """Understand the suite's own features and the maps of the gabor models."""
        self._features = compass_features(image, outputs)
        self._aligned_camera = None
        self._filter = None

    def reset(self) -> None:
        """Forget all views; the next image sets yaw to zero."""
        self._filter = None

    def update(self, image: ImageLike, stamp: float = 0.0) -> HeadingResult:
        """Measure the heading in an image, uint8 [H, W] or [H, W, 3] RGB, taken at `stamp` seconds.

        Raises what PerceptionAlgorithm.update does, and CameraError without a camera of the image's size.
        """
        checked = camera_image(image)
        self._check_camera(checked.width, checked.height)
        return super().update(checked, stamp)

    def postprocess(self, frame: Frame, outputs: Mapping[str, NDArray[Any]]) -> HeadingResult:
        """Second half of `update`: the result, from what `preprocess` gave and the model's outputs by name.

        Without a camera of the image's size the result is not valid; here this is no error, as intrinsics may
        come later than images.
        """
        bound = self._bound_input()
        assert self._features is not None
        aligner = self._aligner_for(frame, bound, self._features)
        if aligner is None:
            return HeadingResult(frame.stamp, False, 0.0)
        view = View(self._features.read(outputs))
        if self._filter is None:
            self._filter = HeadingFilter(aligner, self._up)
        heading = self._filter.update(view, frame.stamp)
        reference = self._filter.reference_stamp
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

    def _aligner_for(
        self, frame: Frame, image: ImageInput, reader: CompassFeatures
    ) -> RotationAligner | None:
        """The aligner for the present camera, if the frame is of its size; another camera starts afresh.

        So does another region.
        """
        camera = frame.camera(self.camera)
        if camera is None:
            return None
        if self._aligner is None or camera != self._aligned_camera:
            self._aligner = RotationAligner(camera, image.height, image.width, reader.grid)
            self._aligned_camera = camera
            self._filter = None
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
