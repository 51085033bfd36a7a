"""Makes vision_msgs/Detection2D from detections in an image; the package is imported at first use.

Some nodes have detections next to other results, and run without vision_msgs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from std_msgs.msg import Header

from edgetpu_driver.node_kit.node_table import missing_package

if TYPE_CHECKING:
    from vision_msgs.msg import Detection2D, Detection2DArray


def detection_array_type() -> type[Detection2DArray]:
    """Return vision_msgs/Detection2DArray; DependencyMissingError where the package is not installed."""
    try:
        from vision_msgs.msg import Detection2DArray
    except ModuleNotFoundError as error:
        raise missing_package("vision_msgs/Detection2DArray", error) from None
    return Detection2DArray  # type: ignore[no-any-return]


def detection_array(header: Header, detections: Sequence[Detection2D]) -> Detection2DArray:
    """Make the message with the detections of an image."""
    return detection_array_type()(header=header, detections=detections)


def detection_message(
    header: Header,
    class_id: str,
    score: float,
    center: tuple[float, float],
    size: tuple[float, float],
    *,
    angle: float = 0.0,
    identifier: str = "",
) -> Detection2D:
    """Make a detection of one class, with a score of 0 to 1.

    center: of the box, px, x to the right and y down. vision_msgs does not define the origin: it is the
    corner of the first pixel for objects, its centre for spots. size: along the box's x and y axes, px.
    angle: from the image's x axis to the box's, towards the image's y axis, rad. identifier: of a tracked
    object.
    """
    from vision_msgs.msg import (
        BoundingBox2D,
        Detection2D,
        ObjectHypothesis,
        ObjectHypothesisWithPose,
        Point2D,
        Pose2D,
    )

    x, y = center
    width, height = size
    hypothesis = ObjectHypothesis(class_id=class_id, score=float(score))
    return Detection2D(
        header=header,
        results=[ObjectHypothesisWithPose(hypothesis=hypothesis)],
        bbox=BoundingBox2D(
            center=Pose2D(position=Point2D(x=float(x), y=float(y)), theta=float(angle)),
            size_x=float(width),
            size_y=float(height),
        ),
        id=identifier,
    )
