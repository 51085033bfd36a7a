from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.errors import ModelNameError
from edgetpu_perception.graphs import flow_and_compass_features as features
from edgetpu_perception.graphs import looming_slopes as looming
from edgetpu_perception.graphs import pattern_tracker_correlation as pattern
from edgetpu_perception.graphs import spot_tracker_evidence as spot
from edgetpu_perception.graphs.color_weights import COLORS, ColorError, color_weights
from edgetpu_perception.graphs.families import build, write_model

pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


def evidence(model: bytes, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    engine = CpuEngine(model)
    (output,) = engine.run({"image": image.reshape(engine.inputs[0].shape)}).values()
    return output[0, :, :, 0]


def blocks(image: NDArray[Any]) -> NDArray[np.int64]:
    """The largest minimum of all 2x2 blocks with the pixel or one of its 8 neighbours."""
    minimum = np.minimum.reduce([image[y : y + 63, x : x + 63] for y in (0, 1) for x in (0, 1)])
    padded = np.pad(minimum.astype(np.int64), 2)
    # A block that begins at pixel b holds b and b + 1: those from -2 to +1 touch the neighbourhood.
    return np.maximum.reduce([padded[y : y + 64, x : x + 64] for y in range(4) for x in range(4)])


def mean_of_neighbours(image: NDArray[Any]) -> NDArray[np.float64]:
    padded, inside = np.pad(image.astype(np.float64), 1), np.pad(np.ones((64, 64)), 1)
    total, count = (
        sum(array[y : y + 64, x : x + 64] for y in range(3) for x in range(3)) for array in (padded, inside)
    )
    return total / count


def test_the_bright_graph_limits_pixels_to_their_blocks_and_averages() -> None:
    image = np.random.default_rng(3).integers(0, 256, (64, 64), np.uint8)
    expected = mean_of_neighbours(np.minimum(image, blocks(image)))
    assert np.abs(evidence(spot.build(), image) - expected).max() <= 0.5


@pytest.mark.parametrize("position", [(20, 30), (0, 0), (0, 63), (63, 0), (63, 63), (62, 62), (1, 40)])
def test_a_hot_pixel_is_removed(position: tuple[int, int]) -> None:
    image = np.zeros((64, 64), np.uint8)
    image[position] = 255
    assert not evidence(spot.build(), image).any()


@pytest.mark.parametrize("corner", [(20, 30), (0, 0), (62, 62)])
def test_the_smallest_spot_stays(corner: tuple[int, int]) -> None:
    y, x = corner
    image = np.zeros((64, 64), np.uint8)
    image[y : y + 2, x : x + 2] = 180
    result = evidence(spot.build(), image)
    expected = np.rint(mean_of_neighbours(image))
    assert np.array_equal(result, expected)


def test_a_uniform_image_stays_uniform_up_to_its_border() -> None:
    assert np.all(evidence(spot.build(), np.full((64, 64), 200, np.uint8)) == 200)


@pytest.mark.parametrize("color", COLORS)
def test_a_color_graph_shows_its_color_in_full_and_no_grey(color: str) -> None:
    pure = np.where(np.array(COLORS[color]) > 0, 255, 0).astype(np.uint8)
    image = np.broadcast_to(pure, (64, 64, 3))
    assert np.all(evidence(spot.build(color_weights(color)), np.ascontiguousarray(image)) == 255)
    grey = evidence(spot.build(color_weights(color)), np.full((64, 64, 3), 200, np.uint8))
    assert np.all(grey == (200 if color == "white" else 0))


def test_color_weights_are_a_sum_over_the_channels() -> None:
    image = np.broadcast_to(np.array([200, 100, 50], np.uint8), (64, 64, 3))
    # 200 * 1 - 100 / 2 - 50 / 2
    assert np.all(evidence(spot.build(color_weights([1.0, -0.5, -0.5])), np.ascontiguousarray(image)) == 125)


def test_only_the_proportions_of_color_weights_count() -> None:
    assert color_weights([0.2, -0.1, -0.1]) == color_weights("red") == (126, -63, -63)


@pytest.mark.parametrize(
    ("color", "message"),
    [
        ("brown", "expected a colour of red, .*; got 'brown'"),
        ([1.0, 0.0], "three finite weights"),
        ([1.0, 0.0, float("nan")], "three finite weights"),
        ([10**400, 0.0, 0.0], "three finite weights"),
        (["red"], r"three finite weights .*; got \['red'\]"),
        ([[1.0], [0.0, 0.0]], "three finite weights"),
        ({"red": 1.0}, "three finite weights"),
        ([0.0, 0.0, 0.0], "at least one positive weight"),
        ([-1.0, 0.0, 0.0], "at least one positive weight"),
    ],
)
def test_invalid_colors_are_refused(color: Any, message: str) -> None:
    with pytest.raises(ColorError, match=message):
        color_weights(color)


@pytest.mark.parametrize(
    ("color", "name"),
    [(None, "spot_bright_64x64"), ("red", "spot_color_7ec1c1_64x64"), ([0, 0, 1], "spot_color_00007e_64x64")],
)
def test_a_name_rebuilds_its_graph(color: Any, name: str) -> None:
    assert spot.name(color) == name
    assert build(name) == (spot.build() if color is None else spot.build(color_weights(color)))


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        (features.name(), features.build()),
        (features.name(128, 96, 2), features.build(128, 96, 2)),
        (looming.name(128, 128), looming.build(128, 128)),
        (pattern.name((128, 96), (32, 16)), pattern.build((128, 96), (32, 16))),
    ],
    ids=["features", "second order", "looming", "pattern"],
)
def test_every_family_is_built_by_name(name: str, graph: bytes) -> None:
    assert build(name) == graph


def test_graphs_come_in_other_sizes() -> None:
    (spec,) = CpuEngine(build("spot_bright_48x96")).inputs
    assert spec.shape == (1, 48, 96, 1)


@pytest.mark.parametrize(
    "name",
    [
        *("", "spot_bright", "spot_bright_0x64", "spot_color_64x64", "spot_color_8080ff_64x64"),
        *("features3_64x64", "features1_12x64", "looming_8x8", "pattern_64x64_65x8", "pattern_64x64"),
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ModelNameError, match="expected"):
        build(name)


def test_the_error_lists_the_known_names() -> None:
    with pytest.raises(ModelNameError) as caught:
        build("nose")
    for family in ("spot_bright_", "spot_color_", "features<order", "looming_", "pattern_"):
        assert family in str(caught.value)


def test_a_graph_is_the_same_bytes_wherever_it_is_built() -> None:
    assert hashlib.sha256(spot.build()).hexdigest() == hashlib.sha256(build("spot_bright_64x64")).hexdigest()
    assert spot.build() == spot.build()


def test_a_model_file_is_written_once(tmp_path: Path) -> None:
    path = write_model("spot_bright_64x64", tmp_path / "edgetpu" / "models")
    assert path.read_bytes() == spot.build()
    os.utime(path, (1, 1))
    assert write_model("spot_bright_64x64", path.parent) == path
    assert path.stat().st_mtime == 1


def test_a_graph_with_other_weights_is_written_under_its_own_name(tmp_path: Path) -> None:
    assert write_model("mine", tmp_path, b"graph").read_bytes() == b"graph"


def test_another_file_of_that_name_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "spot_bright_64x64.tflite").write_bytes(b"older version")
    path = write_model("spot_bright_64x64", tmp_path)
    assert path.read_bytes() == spot.build()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
