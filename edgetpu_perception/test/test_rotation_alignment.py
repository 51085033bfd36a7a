"""Alignment of two views whose differences are mostly smaller than the rounding of their features."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_perception.algorithm import ImageInput
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.visual_compass.alignment_records import View
from edgetpu_perception.visual_compass.compass_features import compass_features
from edgetpu_perception.visual_compass.moving_objects.point_agreement import MIN_STANDING_SHARE
from edgetpu_perception.visual_compass.rotation_alignment import RotationAligner
from edgetpu_perception.visual_compass.rotations import to_matrix, to_vector
from testdata.pictures.turning_camera import CAMERA, IMAGE, World

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

POSTS = ((-22.0, 3.0, -8.0), (-4.0, 2.0, 3.0), (9.0, 5.0, -15.0), (25.0, 3.0, 0.0))
"""Dark posts: azimuth of the left edge, width, and elevation of the top (down positive), deg."""

SLIGHT_NOISE = 0.3
"""Grey levels: less than the rounding of the features."""


class Posts(World):
    """Dark posts before a bright wall."""

    def photo(self, yaw: float) -> IMAGE:
        """Image of a camera turned left, deg."""
        x, y, z = cv2.Rodrigues(np.radians([0.0, -yaw, 0.0]))[0] @ self.rays.T
        azimuth, elevation = np.degrees(np.arctan2(x, z)), np.degrees(np.arctan2(y, np.hypot(x, z)))
        grey = np.full(azimuth.shape, 200.0)
        for left, width, top in POSTS:
            inside = np.minimum(np.minimum(azimuth - left, left + width - azimuth), elevation - top)
            grey -= 150 * np.clip(inside / 1.2 + 0.5, 0, 1)
        noisy = grey.reshape(self.shape) + self.random.normal(0, SLIGHT_NOISE, self.shape)
        image: IMAGE = np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
        return image


@pytest.mark.parametrize("error", [-0.3, 0.0, 0.3])
def test_edges_are_aligned_whatever_the_error_of_the_guess(error: float) -> None:
    engine, world = CpuEngine(features.build()), Posts()
    reader = compass_features(ImageInput.of(engine.inputs), engine.outputs)
    aligner = RotationAligner(CAMERA, 64, 64, reader.grid)
    before, after = (
        View(reader.read(engine.run({"image": world.photo(yaw)[np.newaxis, :, :, np.newaxis]})))
        for yaw in (0.0, 1.3)
    )
    found = aligner.align(aligner.key(before), after, to_matrix(np.radians([0.0, 1.3 + error, 0.0])))
    assert np.degrees(to_vector(found.rotation)) == pytest.approx((0, 1.3, 0), abs=0.03)


@pytest.mark.parametrize("error", [-0.05, -0.03, 0.0, 0.03, 0.05])
def test_blocks_that_a_video_codec_repeats_are_no_reason_to_leave_the_others_out(error: float) -> None:
    engine, world = CpuEngine(features.build()), World()
    reader = compass_features(ImageInput.of(engine.inputs), engine.outputs)
    aligner = RotationAligner(CAMERA, 64, 64, reader.grid)
    aligner.little_moves = False
    still, turned = (world.image(yaw, noise=0.0) for yaw in (0.0, 0.02))
    before, after = (
        View(reader.read(engine.run({"image": image[np.newaxis, :, :, np.newaxis]})))
        for image in (still, transmitted(still, turned))
    )
    found = aligner.align(aligner.key(before), after, to_matrix(np.radians([0.0, 0.02 + error, 0.0])))
    assert found.converged
    # Half of the blocks have moved.
    assert np.degrees(to_vector(found.rotation)) == pytest.approx((0, 0.01, 0), abs=0.008)


@pytest.mark.parametrize(("columns", "stand"), [(20, 0.75), (45, MIN_STANDING_SHARE)])
def test_points_that_move_are_left_out_of_a_key_while_enough_stand(columns: int, stand: float) -> None:
    random, engine = np.random.default_rng(2), CpuEngine(features.build())
    image, other = (cv2.GaussianBlur(random.uniform(0, 255, (64, 64)), (0, 0), 2.0) for _ in range(2))
    changed = np.where(np.arange(64) < columns, other, image)
    reader = compass_features(ImageInput.of(engine.inputs), engine.outputs)
    aligner = RotationAligner(CAMERA, 64, 64, reader.grid)
    before, after = (
        View(reader.read(engine.run({"image": each.astype(np.uint8)[np.newaxis, :, :, np.newaxis]})))
        for each in (image, changed)
    )
    found = aligner.unturned(aligner.align(aligner.key(before), before, np.eye(3)), after)
    quiet = dataclasses.replace(found.agreement, noise=SLIGHT_NOISE)
    key = aligner.key(after, dataclasses.replace(found, following=0.3, agreement=quiet))
    assert key.standing is not None
    right = aligner.points.rays[0] > np.sort(aligner.points.rays[0])[-len(aligner.points.index) // 6]
    assert key.standing[right].all()
    assert key.standing.mean() == pytest.approx(stand, abs=0.05)


def transmitted(last: IMAGE, image: IMAGE) -> IMAGE:
    """An image as a video codec shows it: of blocks of 4x4 px that have hardly changed, the last one."""
    change = cv2.resize(cv2.absdiff(last, image).astype(np.float32), (16, 16), interpolation=cv2.INTER_AREA)
    sent = np.kron(change > np.median(change), np.ones((4, 4))).astype(bool)
    return np.where(sent, image, last)
