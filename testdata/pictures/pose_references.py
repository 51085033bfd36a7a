"""Reference poses that the vendor publishes with its models."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ReferencePose(NamedTuple):
    """One pose of a picture."""

    score: float
    keypoint_scores: NDArray[np.float64]
    """Scores of the keypoints, [17], 0..1."""
    x: NDArray[np.float64]
    """Positions, [17], in shares of the picture's width."""
    y: NDArray[np.float64]
    """Positions, [17], in shares of the picture's height."""


def read_reference_poses(path: Path) -> list[ReferencePose]:
    """Read a file with one line for each keypoint of each pose; return the poses in the file's order."""
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    poses = []
    for pose in sorted({int(row["pose_id"]) for row in rows}):
        own = sorted(
            (row for row in rows if int(row["pose_id"]) == pose), key=lambda row: int(row["keypoint_id"])
        )
        score, *columns = (
            np.array([float(row[name]) for row in own])
            for name in ("pose_score", "keypoint_score", "keypoint_x", "keypoint_y")
        )
        poses.append(ReferencePose(float(score[0]), *columns))
    return poses
