"""The cameras and models that the compass takes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_perception.camera_intrinsics import CameraError, Pinhole
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.graphs import spot_tracker_evidence as spot
from edgetpu_perception.visual_compass.visual_compass import HeadingResult, VisualCompass
from testdata import ModelFolder
from testdata.pictures.turning_camera import CAMERA, FOCAL, World, degrees, play, rms

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


@pytest.mark.parametrize("size", [96, 128])
def test_a_larger_input_is_at_the_same_scale(size: int) -> None:
    focal = 2 * FOCAL
    camera = Pinhole(128, 128, focal, focal, 63.5, 63.5)
    compass = VisualCompass(camera=camera, size=size)
    assert compass.model == features.name(size, size)
    results = play(range(9), camera=camera, compass=compass)[1:]
    assert degrees(results, "yaw") == pytest.approx(np.arange(1.0, 9.0), abs=0.05)


@pytest.mark.parametrize(
    "camera",
    [
        Pinhole(64, 64, 45, 45, 28, 36, (-0.25, 0.06, 0.001, -0.001)),
        Pinhole(64, 64, 45, 45, 28, 36, (0.1, 0.02, 0, 0, 0, 0.3, 0.1, 0, 0.01, 0, 0.01, 0)),
        Pinhole(320, 240, 250, 250, 165, 118),
        Pinhole(96, 160, 120, 120, 47.5, 79.5),
    ],
    ids=["distorted", "thin prism", "large", "upright"],
)
def test_angles_come_from_the_camera(camera: Pinhole) -> None:
    yaws = [1.5 * index for index in range(16)]
    assert degrees(play(yaws, camera=camera)[1:], "yaw") == pytest.approx(yaws[1:], abs=0.15)


def test_a_larger_model_input_is_accepted() -> None:
    camera = replace(CAMERA, width=128, height=96, fx=90, fy=90, cx=63.5, cy=47.5)
    compass = VisualCompass(CpuEngine(features.build(96, 128)), camera)
    assert degrees(play([0, 1, 2], camera=camera, compass=compass)[1:], "yaw") == pytest.approx(
        [1, 2], abs=0.05
    )


@pytest.mark.parametrize(
    ("model", "rate_limit", "yaw_limit"),
    [("gabor_64x64_7k_4o_2s", 1.6, 0.4), ("gabor_64x64_p4", 20, 2)],
    ids=["whole", "pooled"],
)
def test_gabor_models_are_accepted(
    golden: ModelFolder, model: str, rate_limit: float, yaw_limit: float
) -> None:
    compass = VisualCompass(CpuEngine(golden.model(f"{model}.tflite")), CAMERA)
    yaws = np.arange(0, 40, 1.5)
    results = play(yaws.tolist(), compass=compass)[1:]
    assert all(result.valid for result in results)
    assert rms(degrees(results, "yaw_rate") - 45) < rate_limit
    assert np.abs(degrees(results, "yaw") - yaws[1:]).max() < yaw_limit


def test_another_model_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="expected an output"):
        VisualCompass(CpuEngine(spot.build()), CAMERA)


def test_without_intrinsics_of_the_images_size_there_is_no_angle() -> None:
    with pytest.raises(CameraError, match="there are none"):
        VisualCompass().update(World().image(0))
    with pytest.raises(CameraError, match="expected an image of 640x480 px"):
        VisualCompass(camera=replace(CAMERA, width=640, height=480)).update(World().image(0))


def test_a_result_before_the_intrinsics_is_not_valid() -> None:
    world, compass, engine = World(), VisualCompass(), CpuEngine(features.build())
    compass.bind(engine.inputs, engine.outputs)
    frame = compass.preprocess(world.image(0), 0.5)
    assert repr(compass.postprocess(frame, engine.run(frame.inputs))) == repr(HeadingResult(0.5, False, 0.0))
    compass.camera = CAMERA
    results = [
        compass.postprocess(frame, engine.run(frame.inputs)) for frame in (frame, replace(frame, stamp=1.0))
    ]
    assert [result.valid for result in results] == [False, True]


def test_another_camera_restarts() -> None:
    world, compass = World(), VisualCompass(camera=CAMERA)
    compass.update(world.image(0), 0.0)
    compass.update(world.image(1), 1.0)
    compass.camera = replace(CAMERA, fx=FOCAL + 1)
    assert not compass.update(world.image(2), 2.0).valid


def test_an_up_without_a_direction_is_refused() -> None:
    with pytest.raises(CameraError, match="upward direction"):
        VisualCompass(camera=CAMERA, up=(0.0, 0.0, 0.0))


def test_importing_the_compass_does_not_import_litert() -> None:
    code = (
        "import sys, edgetpu_perception.visual_compass.visual_compass; "
        "sys.exit('ai_edge_litert' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
