"""Graphs whose convolutions are rewritten for LiteRT give the same bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CpuEngine
from edgetpu_driver.engines.litert_interpreter import make_interpreter
from edgetpu_driver.engines.wide_convolutions import with_wide_convolutions
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.graph_builder import GraphBuilder, Padding
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain.joint_graphs import build_joint_graph
from edgetpu_perception.graphs.families import build

WIDENED = ("features1_64x64", "features2_33x70", "looming_64x64", "looming_127x90", "pattern_64x64_16x16")
POOLED = ("pattern_128x128_32x32", "pattern_64x64_9x5", "spot_bright_64x64", "spot_color_7ec1c1_33x40")
STRIDED = ("looming_128x128", "looming_130x199", "looming_135x128")
JOINT = "features1_64x64_and_looming_64x64_and_pattern_64x64_16x16_and_spot_bright_64x64"


def outputs(data: bytes, image: NDArray[np.uint8]) -> list[NDArray[np.int8]]:
    interpreter = make_interpreter("the graph", data, True)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


def random_image(data: bytes, seed: int = 0) -> NDArray[np.uint8]:
    shape = parse_model(data).subgraphs[0].input_specs[0].shape
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def assert_same(data: bytes) -> None:
    for seed in range(3):
        image = random_image(data, seed)
        wide = outputs(with_wide_convolutions(data), image)
        for expected, found in zip(outputs(data, image), wide, strict=True):
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", [*WIDENED, *POOLED, *STRIDED, JOINT])
def test_the_suites_graphs_give_the_same(name: str) -> None:
    data = build(name)
    assert with_wide_convolutions(data) != data
    assert_same(data)


@pytest.mark.parametrize("extreme", [-127, 127])
def test_sums_that_are_as_large_as_can_be_are_the_same(extreme: int) -> None:
    data = build("pattern_64x64_16x16")
    assert_same(replace_tensor(data, "response/weights", np.full((1, 16, 16, 1), extreme, np.int8)))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 4, 8])
@pytest.mark.parametrize("kernel", [(5, 5), (1, 25), (25, 1), (6, 9)])
def test_any_convolution_gives_the_same(padding: Padding, stride: int, kernel: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    graph = GraphBuilder("any")
    image = graph.input("image", (1, 27, 30, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    weights, bias = random.integers(-127, 128, (3, *kernel, 1)), random.integers(-9999, 9999, 3)
    graph.output(
        graph.conv_2d(
            grey,
            weights,
            [0.1, 0.2, 0.3],
            scale=20.0,
            zero_point=11,
            bias=bias,
            stride=stride,
            padding=padding,
            activation="RELU",
        )
    )
    data = graph.build()
    assert with_wide_convolutions(data) != data
    assert_same(data)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("size", [(2, 2), (3, 5), (1, 4)])
def test_any_maximum_gives_the_same(padding: Padding, size: tuple[int, int]) -> None:
    graph = GraphBuilder("any")
    image = graph.input("image", (1, 27, 30, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    graph.output(graph.max_pool_2d(grey, size, stride=1, padding=padding))
    data = graph.build()
    assert with_wide_convolutions(data) != data
    assert_same(data)


@pytest.mark.parametrize("size", [(3, 3), (1, 4), (5, 30), (27, 3)])
def test_any_average_gives_the_same(size: tuple[int, int]) -> None:
    graph = GraphBuilder("any")
    image = graph.input("image", (1, 27, 30, 1), np.uint8, scale=1.0, zero_point=0)
    grey = graph.quantize(image, np.int8, scale=1.0, zero_point=-128)
    graph.output(graph.average_pool_2d(grey, size, stride=1, padding="SAME"))
    data = graph.build()
    assert with_wide_convolutions(data) != data
    assert_same(data)


@pytest.mark.parametrize("size", [(3, 2), (3, 31)])
def test_averages_of_few_or_all_columns_stay_as_they_are(size: tuple[int, int]) -> None:
    graph = GraphBuilder("any")
    grey = graph.input("image", (1, 27, 30, 1), np.int8, scale=1.0, zero_point=-128)
    graph.output(graph.average_pool_2d(grey, size, stride=1, padding="SAME"))
    data = graph.build()
    assert with_wide_convolutions(data) is data


def test_a_graph_that_gains_nothing_stays_as_it_is() -> None:
    data = build_joint_graph("dense_64")
    assert with_wide_convolutions(data) is data


def test_the_engine_runs_new_weights_in_the_rewritten_graph() -> None:
    data = build("pattern_64x64_16x16")
    engine, template = CpuEngine(data), np.random.default_rng(2).integers(-127, 128, (1, 16, 16, 1))
    engine.set_weights(template.astype(np.float32))
    image = random_image(data)
    (expected,) = outputs(replace_tensor(data, "response/weights", template.astype(np.int8)), image)
    assert np.array_equal(engine.run({"image": image})["response"], expected)
