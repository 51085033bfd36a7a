"""PoseEstimator: poses in px of the image from every kind of model's outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.images.region import Region
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import PoseEstimator, Poses
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.pose_estimation.posenet import stride_of
from testdata.pictures.fixed_outputs import FixedOutputs
from testdata.pictures.posenet_maps import STRIDE, maps, person, quantised

HEIGHT, WIDTH = 305, 481
"""Of the input: 20x31 cells at a stride of 16 px."""
CELLS = 20, 31
IMAGE = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
ONE, OTHER = person(50, 100), person(60, 300)


def positions(poses: Poses) -> NDArray[np.float64]:
    """[n, 17, 2], y and x, px of the image."""
    return np.array([[(each.y, each.x) for each in pose.keypoints] for pose in poses.poses])


def decoder_outputs(count: float = 2) -> dict[str, Any]:
    poses = np.zeros((1, 4, 17, 2), np.float32)
    poses[0, :2] = ONE, OTHER
    scores = np.array([[0.5, 0.75, 0, 0]], np.float32)
    keypoint_scores = np.broadcast_to(scores[..., None], (1, 4, 17)).copy()
    return {
        "poses": poses,
        "poses:1": keypoint_scores,
        "poses:2": scores,
        "poses:3": np.array([count], np.float32),
    }


def map_outputs(*people: NDArray[np.float64]) -> dict[str, Any]:
    heat, short, mid = maps(*CELLS, people)
    return {"heatmaps": heat.values[None], "short": short.values[None], "mid": mid.values[None]}


def estimate(outputs: dict[str, Any], image: NDArray[np.uint8] = IMAGE, **arguments: Any) -> Poses:
    return PoseEstimator(FixedOutputs(HEIGHT, WIDTH, outputs), **arguments).update(image, 7.0)


def test_poses_of_the_models_own_decoder_are_taken_the_highest_score_first() -> None:
    poses = estimate(decoder_outputs())
    assert [pose.score for pose in poses.poses] == [0.75, 0.5]
    np.testing.assert_allclose(positions(poses), [OTHER, ONE], rtol=1e-6)
    assert poses.stamp == 7.0


def test_the_order_of_the_outputs_does_not_matter() -> None:
    outputs = decoder_outputs()
    turned = dict(reversed(outputs.items()))
    assert estimate(turned) == estimate(outputs)


def test_only_as_many_poses_count_as_the_model_says() -> None:
    assert [pose.score for pose in estimate(decoder_outputs(count=1)).poses] == [0.5]


def test_a_count_that_is_too_large_counts_all_rows() -> None:
    assert len(estimate(decoder_outputs(count=99), min_confidence=0.0).poses) == 4


@pytest.mark.parametrize(("height", "width"), [(353, 481), (481, 641), (721, 1281), (480, 640)])
def test_keypoints_are_px_of_the_image_at_every_size_of_the_model(height: int, width: int) -> None:
    cells = -(-height // STRIDE), -(-width // STRIDE)
    heat, short, mid = maps(*cells, [ONE, OTHER])
    outputs = {"a": heat.values[None], "b": short.values[None], "c": mid.values[None]}
    image = np.zeros((2 * height, 3 * width, 3), np.uint8)
    poses = PoseEstimator(FixedOutputs(height, width, outputs)).update(image)
    nearest = sorted(positions(poses), key=lambda pose: float(pose[0, 1]))
    np.testing.assert_allclose(nearest, np.array([ONE, OTHER]) * (2, 3), atol=1e-2)


@pytest.mark.parametrize(
    ("height", "width", "rows", "columns", "stride"),
    [
        (481, 641, 31, 41, 16),
        (721, 1281, 46, 81, 16),
        (480, 640, 30, 40, 16),  # of BodyPix; the maps of these do not end at the edges of the input
        (352, 480, 22, 30, 16),
        (480, 640, 15, 20, 32),
        (301, 401, 21, 28, 15),
        (257, 257, 257, 257, 1),
        (257, 257, 129, 129, 2),
        (257, 257, 101, 101, 2.56),  # resized, neither halved nor rounded
    ],
)
def test_the_stride_follows_from_the_sizes_of_input_and_maps(
    height: int, width: int, rows: int, columns: int, stride: float
) -> None:
    image = TensorSpec("image", (1, height, width, 3), np.dtype(np.uint8), 0.0, 0)
    heatmaps = TensorSpec("heatmaps", (1, rows, columns, 17), np.dtype(np.float32), 0.0, 0)
    assert stride_of(image, heatmaps) == stride


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (400, 600),  # more cells than px
        (20, 20),  # not square
        (1, 1),
    ],
)
def test_maps_that_do_not_cover_the_input_with_square_cells_are_refused(rows: int, columns: int) -> None:
    channels = {"heatmaps": 17, "short": 34, "mid": 64}
    outputs = {name: np.zeros((1, rows, columns, each), np.float32) for name, each in channels.items()}
    with pytest.raises(ModelUnsupportedError) as error:
        PoseEstimator(FixedOutputs(HEIGHT, WIDTH, outputs))
    assert str(error.value) == (
        "expected square cells of 1 px or more over the whole input of 305x481 px; "
        f"got {rows}x{columns} cells in the output heatmaps"
    )


def test_a_single_pose_is_the_one_with_the_highest_score() -> None:
    assert [pose.score for pose in estimate(decoder_outputs(), max_poses=1).poses] == [0.75]


def test_poses_with_less_confidence_are_left_out() -> None:
    assert [pose.score for pose in estimate(decoder_outputs(), min_confidence=0.6).poses] == [0.75]


def test_no_pose_at_all_cannot_be_asked_for() -> None:
    with pytest.raises(InputError, match="max_poses: expected 1 or more; got 0"):
        PoseEstimator(max_poses=0)


def test_keypoints_are_named() -> None:
    pose = estimate(decoder_outputs()).poses[1]
    assert (pose["left_ankle"].y, pose["left_ankle"].x) == pytest.approx(tuple(ONE[15]))


def test_positions_are_px_of_the_image_whatever_its_size() -> None:
    poses = estimate(decoder_outputs(), np.zeros((2 * HEIGHT, 3 * WIDTH, 3), np.uint8))
    np.testing.assert_allclose(positions(poses)[1], ONE * (2, 3), rtol=1e-6)


def test_positions_in_a_region_are_those_of_the_whole_image() -> None:
    estimator = PoseEstimator(FixedOutputs(HEIGHT, WIDTH, decoder_outputs()))
    estimator.region = Region(10, 20, WIDTH, HEIGHT)
    poses = estimator.update(np.zeros((HEIGHT + 50, WIDTH + 50, 3), np.uint8))
    np.testing.assert_allclose(positions(poses)[1], ONE + (20, 10), rtol=1e-6)  # noqa: RUF005  # arrays


def test_a_letterboxed_image_has_its_own_px_too() -> None:
    poses = estimate(decoder_outputs(), np.zeros((HEIGHT, 2 * WIDTH, 3), np.uint8), fit="letterbox")
    above = (HEIGHT - round(HEIGHT / 2)) // 2
    expected = (ONE - (above, 0)) * (HEIGHT / round(HEIGHT / 2), 2)
    np.testing.assert_allclose(positions(poses)[1], expected, rtol=1e-6)


def test_maps_without_a_decoder_are_decoded() -> None:
    poses = estimate(map_outputs(ONE, OTHER))
    assert len(poses.poses) == 2
    np.testing.assert_allclose(np.sort(positions(poses), axis=0), np.sort([ONE, OTHER], axis=0), atol=1e-3)


def test_quantised_maps_are_scaled_as_their_specs_say() -> None:
    heat, short, mid = maps(*CELLS, [ONE])
    fields = quantised(heat, 0.09, 180), quantised(short, 0.7, 134), quantised(mid, 1.5, 118)
    outputs = {f"map{i}": (f.values[None], f.scale, f.zero_point) for i, f in enumerate(fields)}
    np.testing.assert_allclose(positions(estimate(outputs)), [ONE], atol=0.7)


def test_mid_offsets_may_come_in_two_outputs() -> None:
    outputs = map_outputs(ONE)
    mid = outputs.pop("mid")
    outputs["displacement_bwd"], outputs["displacement_fwd"] = mid[..., 32:], mid[..., :32]
    np.testing.assert_allclose(positions(estimate(outputs)), [ONE], atol=1e-3)


def test_there_are_no_people_in_maps_without_a_peak() -> None:
    outputs = map_outputs(ONE)
    outputs["heatmaps"] = np.full_like(outputs["heatmaps"], 10)
    assert estimate(outputs).poses == ()


def test_movenet_gives_one_pose_with_the_mean_score() -> None:
    keypoints = np.zeros((1, 1, 17, 3), np.float32)
    keypoints[0, 0, :, :2] = ONE / (HEIGHT, WIDTH)
    keypoints[0, 0, :, 2] = np.linspace(0.25, 0.75, 17)
    poses = estimate({"output": keypoints})
    np.testing.assert_allclose(positions(poses), [ONE], rtol=1e-5)
    assert poses.confidence == pytest.approx(0.5)
    assert poses.poses[0]["nose"].score == pytest.approx(0.25)


def test_movenet_multipose_gives_the_people_it_is_sure_of() -> None:
    people = np.zeros((1, 6, 56), np.float32)
    for row, (pose, score) in enumerate(((ONE, 0.5), (OTHER, 0.75))):
        triples = np.concatenate([pose / (HEIGHT, WIDTH), np.full((17, 1), 0.5)], axis=1)
        people[0, row] = [*triples.ravel(), 0, 0, 1, 1, score]
    poses = estimate({"output": people})
    assert [pose.score for pose in poses.poses] == [0.75, 0.5]
    np.testing.assert_allclose(positions(poses), [OTHER, ONE], rtol=1e-5)


def test_black_and_white_of_a_float_input_are_those_of_the_kind_of_model() -> None:
    for outputs, expected in ((map_outputs(ONE), [-1, 1]), ({"o": np.zeros((1, 1, 17, 3))}, [0, 255])):
        engine = FixedOutputs(HEIGHT, WIDTH, outputs)
        estimator = PoseEstimator()
        shape = 1, HEIGHT, WIDTH, 3
        estimator.bind([TensorSpec("image", shape, np.dtype(np.float32), 0.0, 0)], engine.outputs)
        image = IMAGE.copy()
        image[:, WIDTH // 2 :] = 255
        filled = estimator.preprocess(image).inputs["image"]
        np.testing.assert_allclose(filled[0, 0, [0, -1], 0], expected, rtol=1e-6)  # a float32 has 24 bits


def test_another_model_is_refused_with_the_outputs_it_has() -> None:
    with pytest.raises(ModelUnsupportedError, match=r"expected outputs with poses: .*; got 'scores' float32"):
        estimate({"scores": np.zeros((1, 1000), np.float32)})


def test_a_missing_output_is_refused() -> None:
    estimator = PoseEstimator(FixedOutputs(HEIGHT, WIDTH, decoder_outputs()))
    frame = estimator.preprocess(IMAGE)
    with pytest.raises(OutputsError, match="expected the output 'poses:3'; got 'poses'"):
        estimator.postprocess(frame, {"poses": np.zeros((1, 4, 17, 2), np.float32)})


def test_an_output_of_another_shape_is_refused() -> None:
    estimator = PoseEstimator(FixedOutputs(HEIGHT, WIDTH, decoder_outputs()))
    frame = estimator.preprocess(IMAGE)
    outputs = {**decoder_outputs(), "poses": np.zeros((1, 3, 17, 2), np.float32)}
    with pytest.raises(OutputsError, match=r"\[1, 4, 17, 2\]; got float32\[1, 3, 17, 2\]"):
        estimator.postprocess(frame, outputs)


@pytest.mark.parametrize("outputs", [decoder_outputs(), map_outputs(ONE)], ids=["decoder", "maps"])
def test_nan_in_an_output_is_refused(outputs: dict[str, Any]) -> None:
    outputs = {name: array.copy() for name, array in outputs.items()}
    next(iter(outputs.values()))[0, 0] = np.nan
    with pytest.raises(OutputsError, match="expected finite values"):
        estimate(outputs)


def test_outputs_of_8_bits_without_a_scale_are_refused() -> None:
    outputs = {"poses": np.zeros((1, 56, 525), np.int8)}
    with pytest.raises(ModelUnsupportedError, match=r"got 'poses' int8.*; integers of 8 bits mean nothing"):
        PoseEstimator(FixedOutputs(160, 160, outputs))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_pose_beyond_all_images_is_left_out() -> None:
    rows = np.zeros((1, 56, 525), np.float32)
    rows[0, :5, 7], rows[0, 5:, 7] = 0.5, -1e38
    rows[0, :5, 300], rows[0, 5:, 300] = (0.2, 0.2, 0.1, 0.1, 0.9), 0.2
    poses = PoseEstimator(FixedOutputs(160, 160, {"poses": rows})).update(np.zeros((160, 160, 3), np.uint8))
    assert [pose.score for pose in poses.poses] == [pytest.approx(0.9)]
