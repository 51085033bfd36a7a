"""Converts boxes of a model's input, upright or oriented, to boxes of the image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgetpu_vision.detection.detections import OrientedBox
from edgetpu_vision.detection.non_maximum_suppression import Candidates
from edgetpu_vision.preprocessing.image_fit import Placement


def oriented_boxes(
    found: Candidates, placement: Placement
) -> tuple[Sequence[OrientedBox | None], NDArray[np.float64]]:
    """The oriented boxes, and upright boxes around all, float64[n, 4]; both in px of the image.

    The oriented boxes are None if all boxes are upright. A stretched image makes a rotated rectangle oblique:
    each of its axes is scaled and turned by itself, and the angle is that of the x axis.
    """
    boxes = found.boxes.astype(np.float64)
    x, y = placement.image_x(boxes[:, 0::2]), placement.image_y(boxes[:, 1::2])
    if found.angles is None:
        return [None] * len(found), np.stack((x[:, 0], y[:, 0], x[:, 1], y[:, 1]), axis=1)
    angles = found.angles.astype(np.float64)
    scale = np.array([placement.region.width / placement.width, placement.region.height / placement.height])
    sizes = boxes[:, 2:] - boxes[:, :2]
    axes = np.stack([[np.cos(angles), np.sin(angles)], [-np.sin(angles), np.cos(angles)]])  # [axis, x y, n]
    axes = (
        axes * scale[None, :, None] * sizes.T[:, None, :]
    )  # vectors between opposite edges, px of the image
    widths, heights = np.hypot(axes[:, 0], axes[:, 1])
    turned = np.arctan2(axes[0, 1], axes[0, 0])
    centres = np.stack((x.mean(axis=1), y.mean(axis=1)), axis=1)
    extents = np.abs(axes).sum(axis=0).T / 2
    columns = zip(*centres.T.tolist(), widths.tolist(), heights.tolist(), turned.tolist(), strict=True)
    return [OrientedBox(*each) for each in columns], np.hstack((centres - extents, centres + extents))
