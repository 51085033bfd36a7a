"""The result of pose estimation for an image: people's keypoints, and masks of people and of body parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEYPOINT_NAMES = (
    "nose",
    *("left_eye", "right_eye", "left_ear", "right_ear"),
    *("left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist"),
    *("left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle"),
)
"""Names of the 17 keypoints (COCO) in the models' order; left is the person's left."""

SKELETON = (
    *((0, 1), (0, 2), (1, 3), (2, 4)),
    *((5, 6), (5, 7), (7, 9), (6, 8), (8, 10)),
    *((5, 11), (6, 12), (11, 12), (11, 13), (13, 15), (12, 14), (14, 16)),
)
"""Pairs of keypoints that a drawing connects, by number."""

PART_NAMES = (
    "background",
    *("left_face", "right_face"),
    *("left_upper_arm_front", "left_upper_arm_back", "right_upper_arm_front", "right_upper_arm_back"),
    *("left_lower_arm_front", "left_lower_arm_back", "right_lower_arm_front", "right_lower_arm_back"),
    *("left_hand", "right_hand", "torso_front", "torso_back"),
    *("left_upper_leg_front", "left_upper_leg_back", "right_upper_leg_front", "right_upper_leg_back"),
    *("left_lower_leg_front", "left_lower_leg_back", "right_lower_leg_front", "right_lower_leg_back"),
    *("left_foot", "right_foot"),
)
"""Names of BodyPix's 24 body parts by label; 0 stands for no person."""


@dataclass(frozen=True, slots=True)
class Keypoint:
    """One keypoint of a person, in px of the image; (0, 0) is the upper left corner of the first pixel."""

    name: str
    """One of `KEYPOINT_NAMES`."""
    x: float
    """Right positive, px."""
    y: float
    """Down positive, px."""
    score: float
    """Score, 0..1; a hidden keypoint has a low one, and its position is a guess."""


@dataclass(frozen=True, slots=True)
class Pose:
    """One person."""

    score: float
    """Score, 0..1."""
    keypoints: tuple[Keypoint, ...]
    """All 17, in the order of `KEYPOINT_NAMES`."""

    def __getitem__(self, name: str) -> Keypoint:
        """The keypoint of that name; KeyError for any other."""
        for keypoint in self.keypoints:
            if keypoint.name == name:
                return keypoint
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Poses:
    """The people in one image, the highest score first."""

    stamp: float
    """Time of the image, s."""
    image_width: int
    """Width of the image, px."""
    image_height: int
    """Height of the image, px."""
    poses: tuple[Pose, ...]

    @property
    def valid(self) -> bool:
        """Whether someone was found."""
        return bool(self.poses)

    @property
    def confidence(self) -> float:
        """The highest score, 0..1; 0 if no person was found."""
        return self.poses[0].score if self.poses else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class BodySegmentation:
    """The people in one image, with masks of all people together and of their body parts."""

    stamp: float
    """Time of the image, s."""
    poses: tuple[Pose, ...]
    """The highest score first; empty if the model gives none."""
    people: NDArray[np.bool_]
    """[height, width] of the image: whether a pixel belongs to a person. False outside the region that the
    model sees."""
    instances: NDArray[np.uint8]
    """[height, width] of the image: 1 where `poses[0]` is, 2 where `poses[1]` is, and so on; 0 elsewhere, and
    everywhere if the model does not tell people apart."""
    parts: NDArray[np.uint8]
    """[height, width] of the image: number of the body part in `PART_NAMES`; 0 where nobody is, and
    everywhere if the model has no body parts."""

    @property
    def valid(self) -> bool:
        """Whether a person covers any pixel."""
        return bool(self.people.any())

    @property
    def confidence(self) -> float:
        """The highest score of a pose; without poses 1 if any pixel is a person's, otherwise 0."""
        return self.poses[0].score if self.poses else float(self.valid)
