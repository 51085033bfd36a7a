"""Any Coral model on camera images: detection, classification, segmentation, pose estimation, embeddings.

The names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetpu_driver import lazy_getattr

if TYPE_CHECKING:
    from edgetpu_vision.classification.classifications import Classification, Classifications
    from edgetpu_vision.classification.classifier import Classifier
    from edgetpu_vision.detection.detections import Detection, Detections, OrientedBox
    from edgetpu_vision.detection.detector import Detector
    from edgetpu_vision.embedding.embedder import Embedder
    from edgetpu_vision.embedding.embedding import Embedding
    from edgetpu_vision.errors import LabelsError, OutputsError
    from edgetpu_vision.learning.learner import Learner
    from edgetpu_vision.model_description.description import ModelDescription, describe
    from edgetpu_vision.pose_estimation.body_pix import BodyPix
    from edgetpu_vision.pose_estimation.pose_estimator import PoseEstimator
    from edgetpu_vision.pose_estimation.poses import BodySegmentation, Keypoint, Pose, Poses
    from edgetpu_vision.preprocessing.pixel_scaling import Normalisation
    from edgetpu_vision.segmentation.segmentation import Segmentation
    from edgetpu_vision.segmentation.segmenter import Segmenter

__all__ = [
    "BodyPix",
    "BodySegmentation",
    "Classification",
    "Classifications",
    "Classifier",
    "Detection",
    "Detections",
    "Detector",
    "Embedder",
    "Embedding",
    "Keypoint",
    "LabelsError",
    "Learner",
    "ModelDescription",
    "Normalisation",
    "OrientedBox",
    "OutputsError",
    "Pose",
    "PoseEstimator",
    "Poses",
    "Segmentation",
    "Segmenter",
    "describe",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "BodyPix": ".pose_estimation.body_pix",
        "BodySegmentation": ".pose_estimation.poses",
        "Classification": ".classification.classifications",
        "Classifications": ".classification.classifications",
        "Classifier": ".classification.classifier",
        "Detection": ".detection.detections",
        "Detections": ".detection.detections",
        "Detector": ".detection.detector",
        "Embedder": ".embedding.embedder",
        "Embedding": ".embedding.embedding",
        "Keypoint": ".pose_estimation.poses",
        "LabelsError": ".errors",
        "Learner": ".learning.learner",
        "ModelDescription": ".model_description.description",
        "Normalisation": ".preprocessing.pixel_scaling",
        "OrientedBox": ".detection.detections",
        "OutputsError": ".errors",
        "Pose": ".pose_estimation.poses",
        "PoseEstimator": ".pose_estimation.pose_estimator",
        "Poses": ".pose_estimation.poses",
        "Segmentation": ".segmentation.segmentation",
        "Segmenter": ".segmentation.segmenter",
        "describe": ".model_description.description",
    },
)
