"""From a picture to the vendor's reference poses, with the arithmetic that they were made with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_operators.posenet_decoder import Field, decode_poses
from edgetpu_driver.engines.litert_interpreter import make_interpreter
from edgetpu_driver.errors import DependencyMissingError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract
from testdata import GOLDEN
from testdata.pictures.pose_references import read_reference_poses

NAME = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"
MAPS = ("float_heatmaps", "float_short_offsets", "float_mid_offsets")
STRIDE = 16


def stretched(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resize as TensorFlow Lite of 2020 did: by float32 weights of four pixels, rounded down."""

    def places(new: int, old: int) -> tuple[Any, Any, Any]:
        at = (np.arange(new, dtype=np.float32) + np.float32(0.5)) * (np.float32(old) / np.float32(new))
        at -= np.float32(0.5)
        first = np.maximum(np.floor(at).astype(int), 0)
        last = np.minimum(np.ceil(at).astype(int), old - 1)
        return first, last, at - first.astype(np.float32)

    top, bottom, down = places(height, image.shape[0])
    left, right, along = places(width, image.shape[1])
    down, along = down[:, None, None], along[None, :, None]
    pixels, one = image.astype(np.float32), np.float32(1)
    total = pixels[top][:, left] * ((one - down) * (one - along))
    total += pixels[top][:, right] * ((one - down) * along)
    total += pixels[bottom][:, left] * (down * (one - along))
    total += pixels[bottom][:, right] * (down * along)
    return np.clip(total, 0, 255).astype(np.uint8)


def test_the_keypoints_are_those_of_the_reference() -> None:
    """Positions to the reference's last digit; its scores are of heatmaps with other steps."""
    cv2 = pytest.importorskip("cv2", reason="OpenCV reads images")
    data = GOLDEN.path(f"models/{NAME}.tflite").read_bytes()
    image = parse_model(data).subgraphs[0].input_specs[0]
    picture = cv2.imread(str(GOLDEN.path("vision/pictures/test_image.bmp")))[:, :, ::-1]
    expected = read_reference_poses(GOLDEN.path(f"vision/references/{NAME}_reference.csv"))
    try:
        interpreter = make_interpreter(NAME, extract(data, [image.name], MAPS), xnnpack=False)
    except DependencyMissingError as error:
        pytest.skip(str(error))
    _, height, width, _ = image.shape
    interpreter.set_tensor(
        interpreter.get_input_details()[0]["index"], stretched(picture, height, width)[None]
    )
    interpreter.invoke()
    outputs = {each["name"]: each for each in interpreter.get_output_details()}
    fields = [
        Field(interpreter.get_tensor(outputs[name]["index"]), *outputs[name]["quantization"]) for name in MAPS
    ]
    found = decode_poses(*fields, stride=STRIDE)
    assert found.count == len(expected) == 2
    for index, pose in enumerate(expected):
        np.testing.assert_allclose(found.keypoints[index, :, 0] / height, pose.y, atol=1e-6)
        np.testing.assert_allclose(found.keypoints[index, :, 1] / width, pose.x, atol=1e-6)
        np.testing.assert_allclose(found.keypoint_scores[index], pose.keypoint_scores, atol=0.01)
        assert found.scores[index] == pytest.approx(pose.score, abs=0.002)
