"""Makes vision_msgs/Detection2D from detections in an image."""

from __future__ import annotations

from std_msgs.msg import Header
from vision_msgs.msg import (
    BoundingBox2D,
    Detection2D,
    ObjectHypothesis,
    ObjectHypothesisWithPose,
    Point2D,
    Pose2D,
)


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

    center: of the box, right and down positive, px. size: along the box's x and y axes, px. angle: from the
    image's x axis to the box's, towards the image's y axis, rad. identifier: of a tracked object.
    """
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
