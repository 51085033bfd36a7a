"""Any Coral model on camera images: detection, classification, segmentation, pose estimation, embeddings.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetpu_vision.classification.classifications import Classification, Classifications
    from edgetpu_vision.detection.detections import Detection, Detections
    from edgetpu_vision.embedding.embedding import Embedding
    from edgetpu_vision.pose_estimation.body_pix import BodyPix
    from edgetpu_vision.pose_estimation.pose_estimator import PoseEstimator
    from edgetpu_vision.pose_estimation.poses import BodySegmentation, Keypoint, Pose, Poses
    from edgetpu_vision.segmentation.segmentation import Segmentation

__all__ = [
    "BodyPix",
    "BodySegmentation",
    "Classification",
    "Classifications",
    "Detection",
    "Detections",
    "Embedding",
    "Keypoint",
    "Pose",
    "PoseEstimator",
    "Poses",
    "Segmentation",
]

_HOME = {
    "BodyPix": "pose_estimation.body_pix",
    "BodySegmentation": "pose_estimation.poses",
    "Classification": "classification.classifications",
    "Classifications": "classification.classifications",
    "Detection": "detection.detections",
    "Detections": "detection.detections",
    "Embedding": "embedding.embedding",
    "Keypoint": "pose_estimation.poses",
    "Pose": "pose_estimation.poses",
    "PoseEstimator": "pose_estimation.pose_estimator",
    "Poses": "pose_estimation.poses",
    "Segmentation": "segmentation.segmentation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
