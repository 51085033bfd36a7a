"""PoseNet's decoder: maps made from known people give these people again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_operators.posenet_decoder import EDGES, DecodedPoses, Field, decode_poses
from edgetpu_driver.errors import InputError
from testdata.pictures.posenet_maps import STRIDE, maps, person, quantised

HEIGHT, WIDTH = 20, 31


def decode(fields: tuple[Field, Field, Field], **parameters: Any) -> DecodedPoses:
    return decode_poses(*fields, stride=STRIDE, **parameters)


def test_a_person_is_found_where_it_stands() -> None:
    pose = person(50, 200)
    found = decode(maps(HEIGHT, WIDTH, [pose]))
    assert found.count == 1
    np.testing.assert_allclose(found.keypoints[0], pose, atol=1e-3)


def test_a_keypoint_is_scored_by_the_heatmap_at_its_position() -> None:
    heat, short, mid = maps(HEIGHT, WIDTH, [person(64, 200)])
    found = decode((heat, short, mid))
    left, right = heat.values[4, 12, 0], heat.values[4, 13, 0]  # the nose is at cell (4, 12.5)
    assert found.keypoint_scores[0, 0] == pytest.approx(1 / (1 + np.exp(-(left + right) / 2)), abs=1e-5)


def test_a_pose_is_scored_by_the_mean_of_its_keypoints() -> None:
    found = decode(maps(HEIGHT, WIDTH, [person(50, 200)]))
    assert found.scores[0] == pytest.approx(found.keypoint_scores[0].mean(), abs=1e-6)


def test_five_people_side_by_side_are_five_poses() -> None:
    people = [person(40 + 9 * index, 50 + 95 * index) for index in range(5)]
    found = decode(maps(HEIGHT, WIDTH, people))
    assert found.count == 5
    by_column = sorted(found.keypoints[:5], key=lambda pose: float(pose[0, 1]))
    np.testing.assert_allclose(by_column, people, atol=1e-3)


def test_a_person_without_a_face_is_found_from_another_root() -> None:
    pose = person(50, 200)
    heat, short, mid = maps(HEIGHT, WIDTH, [pose])
    heat.values[:, :, :5] = -6
    found = decode((heat, short, mid))
    assert found.count == 1
    np.testing.assert_allclose(found.keypoints[0], pose, atol=1e-3)
    assert found.keypoint_scores[0, :5].max() < 0.01


def test_keypoints_beyond_the_border_stay_at_it() -> None:
    pose = person(200, 200)  # the ankles would be 390 px down, the last row of cells is at 304 px
    found = decode(maps(HEIGHT, WIDTH, [pose]))
    assert found.count == 1
    np.testing.assert_allclose(found.keypoints[0, 15:, 0], (HEIGHT - 1) * STRIDE)
    np.testing.assert_allclose(found.keypoints[0, :13], pose[:13], atol=1e-3)


def test_poses_are_sorted_by_score() -> None:
    weak, strong = person(64, 96), person(64, 352)
    heat, short, mid = maps(HEIGHT, WIDTH, [weak, strong])
    heat.values[:, : WIDTH // 2] -= 2
    found = decode((heat, short, mid))
    assert found.count == 2
    assert found.scores[0] > found.scores[1]
    np.testing.assert_allclose(found.keypoints[:2], [strong, weak], atol=1e-3)


def test_a_double_at_the_same_keypoints_is_no_pose() -> None:
    pose = person(50, 200)
    heat, short, mid = maps(HEIGHT, WIDTH, [pose])
    # A second peak of the nose, on a shoulder: it leads to the keypoints that the first pose has.
    heat.values[15, 25, 0] = 4.0
    short.values[15, 25, [0, 17]] = 0
    for edge, (parent, child) in enumerate(EDGES):
        if parent == 0:
            mid.values[15, 25, [edge, edge + 16]] = pose[child] - (15 * STRIDE, 25 * STRIDE)
    assert decode((heat, short, mid)).count == 1


def test_no_more_poses_are_found_than_wanted() -> None:
    people = [person(40, 50 + 95 * index) for index in range(5)]
    found = decode(maps(HEIGHT, WIDTH, people), max_detections=3)
    assert found.count == 3
    assert found.keypoints.shape == (3, 17, 2)


def test_rows_without_a_pose_are_zeros() -> None:
    found = decode(maps(HEIGHT, WIDTH, [person(50, 200)]), max_detections=2)
    assert not found.keypoints[1].any()
    assert not found.keypoint_scores[1].any()
    assert found.scores[1] == 0


def test_a_pose_below_the_threshold_is_left_out() -> None:
    heat, short, mid = maps(HEIGHT, WIDTH, [person(50, 200)])
    score = decode((heat, short, mid)).scores[0]
    assert decode((heat, short, mid), score_threshold=score - 0.001).count == 1
    assert decode((heat, short, mid), score_threshold=score + 0.001).count == 0


def test_quantised_maps_give_the_pose_within_a_step() -> None:
    pose = person(50, 200)
    heat, short, mid = maps(HEIGHT, WIDTH, [pose])
    found = decode((quantised(heat, 0.09, 180), quantised(short, 0.7, 134), quantised(mid, 1.5, 118)))
    assert found.count == 1
    np.testing.assert_allclose(found.keypoints[0], pose, atol=0.7)


def test_a_batch_of_one_is_the_same_as_none() -> None:
    fields = maps(HEIGHT, WIDTH, [person(50, 200)])
    batch = tuple(replace_values(field, field.values[None]) for field in fields)
    np.testing.assert_array_equal(decode(batch).keypoints, decode(fields).keypoints)  # type: ignore[arg-type]


def replace_values(field: Field, values: Any) -> Field:
    return field._replace(values=values)


@pytest.mark.parametrize("level", [0, 180, 255])
def test_a_map_without_a_peak_has_no_pose(level: int) -> None:
    fields = [
        Field(np.full((HEIGHT, WIDTH, channels), level, np.uint8), 0.09, 0) for channels in (17, 34, 64)
    ]
    assert decode_poses(*fields, stride=STRIDE).count == 0


def test_noise_ends_after_a_bounded_number_of_poses() -> None:
    noise = np.random.default_rng(1)
    fields = [
        Field(noise.integers(0, 256, (46, 81, channels), dtype=np.uint8), 0.09, 128)
        for channels in (17, 34, 64)
    ]
    found = decode_poses(*fields, stride=STRIDE, max_detections=2)
    assert found.count <= 2
    assert np.isfinite(found.keypoints).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("index", range(3))
def test_maps_that_are_not_finite_are_refused(index: int, value: float) -> None:
    fields = maps(HEIGHT, WIDTH, [person(50, 200)])
    fields[index].values[3, 3, 3] = value
    with pytest.raises(InputError, match="expected finite values"):
        decode(fields)


def test_maps_of_different_sizes_are_refused() -> None:
    heat, short, _ = maps(HEIGHT, WIDTH, [person(50, 200)])
    mid = maps(HEIGHT, WIDTH + 1, [person(50, 200)])[2]
    with pytest.raises(InputError, match=r"mid offsets: expected 20x31 cells .* got \[20, 32, 64\]"):
        decode((heat, short, mid))


@pytest.mark.parametrize("values", [np.zeros((4, 4, 16)), np.zeros((4, 17)), np.zeros((4, 4, 17), np.int32)])
def test_a_map_of_another_shape_or_type_is_refused(values: Any) -> None:
    _, short, mid = maps(4, 4, [person(0, 0)])
    with pytest.raises(InputError, match=r"heatmaps: expected uint8, int8 or float \[height, width, 17\]"):
        decode((Field(values), short, mid))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"stride": 0}, "stride: expected more than 0 px; got 0"),
        ({"max_detections": 0}, "max_detections: expected 1 or more; got 0"),
        ({"score_threshold": 1.0}, "score_threshold: expected more than 0 and less than 1; got 1"),
        ({"nms_radius": -1.0}, "nms_radius: expected 0 px or more; got -1"),
    ],
)
def test_a_parameter_out_of_range_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode_poses(*maps(4, 4, [person(0, 0)]), **{"stride": STRIDE, **parameters})


def test_ways_that_meet_a_known_pose_end_there() -> None:
    """A second nose leads to the neck of a person found before; its pose has that person's limbs."""
    pose = person(50, 200)
    heat, short, mid = maps(HEIGHT, WIDTH, [pose])
    alone = decode((heat, short, mid), score_threshold=0.01)
    heat.values[15, 25, 0], short.values[15, 25, [0, 17]] = 2.0, 0
    for edge, (parent, child) in enumerate(EDGES):
        if parent == 0:
            mid.values[15, 25, [edge, edge + 16]] = pose[child] - (15 * STRIDE, 25 * STRIDE)
    both = decode((heat, short, mid), score_threshold=0.01)
    assert (alone.count, both.count) == (1, 2)
    np.testing.assert_array_equal(both.keypoints[1, 1:], alone.keypoints[0, 1:])
    np.testing.assert_allclose(both.keypoints[1, 0], (15 * STRIDE, 25 * STRIDE))
    own = both.keypoint_scores[1, 0] / 17
    assert both.scores[1] == pytest.approx(own, abs=1e-6)
