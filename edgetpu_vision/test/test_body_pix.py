"""BodyPix: masks of people, of each person, and of parts of bodies, in px of the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.images.region import Region
from edgetpu_vision import BodyPix, BodySegmentation
from testdata.pictures.fixed_outputs import FixedOutputs, spec
from testdata.pictures.posenet_maps import maps, person

STRIDE = 16
CELLS = 20, 31
HEIGHT, WIDTH = 305, 481
ONE, OTHER = person(50, 100), person(60, 300)


def half(left: float, right: float) -> NDArray[np.float32]:
    """A map [1, 20, 31, 1] with one value in columns 0 to 14 and another from 16 on, their mean between."""
    columns = np.full(CELLS[1], (left + right) / 2, np.float32)
    columns[:15], columns[16:] = left, right
    return np.broadcast_to(columns[:, None], (1, *CELLS, 1)).copy()


def segment(outputs: dict[str, Any], height: int = HEIGHT, width: int = WIDTH) -> BodySegmentation:
    model = BodyPix(FixedOutputs(HEIGHT, WIDTH, outputs))
    return model.update(np.zeros((height, width, 3), np.uint8), 7.0)


def test_people_are_where_the_logit_is_positive() -> None:
    result = segment({"segments": half(4, -4)})
    border = 15 * STRIDE  # the logit is 0 at the cell in the middle
    assert result.people[:, : border - 1].all()
    assert not result.people[:, border + 1 :].any()
    assert result.poses == ()
    assert (result.valid, result.confidence, result.stamp) == (True, 1.0, 7.0)


def test_the_mask_has_the_size_of_the_image() -> None:
    result = segment({"segments": half(4, -4)}, 2 * HEIGHT, 3 * WIDTH)
    border = 3 * 15 * STRIDE
    assert result.people.shape == (2 * HEIGHT, 3 * WIDTH)
    assert result.people[:, : border - 2].all()
    assert not result.people[:, border + 2 :].any()


def test_quantised_logits_are_scaled_as_the_spec_says() -> None:
    values = np.where(half(1, -1) > 0, 110, 90).astype(np.uint8)
    np.testing.assert_array_equal(
        segment({"segments": (values, 0.1, 100)}).people[:, :200], np.ones((HEIGHT, 200), bool)
    )
    assert not segment({"segments": (values, 0.1, 111)}).people.any()


def test_there_are_no_people_outside_the_region() -> None:
    model = BodyPix(FixedOutputs(HEIGHT, WIDTH, {"segments": half(4, 4)}))
    model.region = Region(10, 20, 100, 50)
    people = model.update(np.zeros((200, 300, 3), np.uint8)).people
    expected = np.zeros((200, 300), bool)
    expected[20:70, 10:110] = True
    np.testing.assert_array_equal(people, expected)


def test_the_most_probable_part_is_given_where_people_are() -> None:
    parts = np.zeros((1, *CELLS, 24), np.float32)
    parts[..., 12], parts[:, :10, :, 0] = 1, 2  # the torso below the left face
    result = segment({"segments": half(4, -4), "parts": parts})
    assert set(np.unique(result.parts[:, 242:])) == {0}
    assert set(np.unique(result.parts[: 9 * STRIDE, :238])) == {1}
    assert set(np.unique(result.parts[10 * STRIDE :, :238])) == {13}


def outputs_of(people: list[NDArray[np.float64]], others: NDArray[np.float64]) -> dict[str, Any]:
    """Maps of people; the cells right of 200 px belong to another one."""
    heat, short, mid = maps(*CELLS, people)
    cells = STRIDE * np.moveaxis(np.mgrid[: CELLS[0], : CELLS[1]], 0, -1).astype(float)
    owner = np.where((cells[..., 1] < 200)[..., None, None], people[0], others)
    long = (owner - cells[:, :, None]).transpose(0, 1, 3, 2).reshape(1, *CELLS, 34)
    return {
        "heatmaps": heat.values[None],
        "short": short.values[None],
        "mid": mid.values[None],
        "long": long.astype(np.float32),
        "segments": half(4, 4),
    }


def test_people_are_distinguished_by_long_offsets() -> None:
    result = segment(outputs_of([ONE, OTHER], OTHER))
    left, right = (1, 2) if result.poses[0]["nose"].x < 200 else (2, 1)
    assert set(np.unique(result.instances[:, :192])) == {left}
    assert set(np.unique(result.instances[:, 208:])) == {right}


def test_a_person_whose_pose_is_not_found_is_not_part_of_another_one() -> None:
    result = segment(outputs_of([ONE], person(60, 400)))
    assert len(result.poses) == 1
    assert set(np.unique(result.instances[:, :192])) == {1}
    assert set(np.unique(result.instances[:, 224:])) == {0}


def test_masks_of_the_models_own_decoder_follow_the_order_of_the_poses() -> None:
    poses = np.zeros((1, 4, 17, 2), np.float32)
    poses[0, :2] = ONE, OTHER
    masks = np.zeros((1, 4, *CELLS), np.float32)
    masks[0, 0, :, :15], masks[0, 1, :, 16:] = 1, 1
    result = segment(
        {
            "poses": poses,
            "poses:1": np.full((1, 4, 17), 0.5, np.float32),
            "poses:2": np.array([[0.5, 0.75, 0, 0]], np.float32),
            "poses:3": np.array([2], np.float32),
            "poses:4": masks,
            "segments": half(4, 4),
        }
    )
    assert [pose.score for pose in result.poses] == [0.75, 0.5]
    assert result.confidence == 0.75
    assert set(np.unique(result.instances[:, : 14 * STRIDE])) == {2}
    assert set(np.unique(result.instances[:, 17 * STRIDE :])) == {1}


def test_a_float_input_takes_the_range_of_posenet_even_without_poses() -> None:
    model = BodyPix()
    model.bind([spec("image", (1, HEIGHT, WIDTH, 3))], [spec("segments", (1, *CELLS, 1))])
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[:, 1:] = 255
    filled = model.preprocess(image).inputs["image"]
    np.testing.assert_allclose(filled, image[None] / np.float32(127.5) - 1, atol=1e-6)


def test_a_model_without_masks_is_refused() -> None:
    with pytest.raises(ModelUnsupportedError, match="expected outputs with masks of people: "):
        segment({"scores": np.zeros((1, 1000), np.float32)})
