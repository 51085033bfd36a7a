"""The parameters of whole networks: from their graphs, byte for byte what the compiler wrote."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.depthwise_layout import depthwise_layout
from edgetpu_driver.darwinn.parameters.layer_layout import HeaderRows, LayerLayout, convolution_layout
from edgetpu_driver.darwinn.parameters.section_codec import ALIGNMENT
from edgetpu_driver.darwinn.requantisation import multipliers
from edgetpu_driver.tflite.constant_patch import replace_tensor
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import ABSENT
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.weights.section_search import NetworkSections, PlacedSection, locate_sections
from testdata import GOLDEN

PAGE = Path(__file__).parents[2] / "docs" / "weight_locations.md"
ROW = re.compile(r"^\| `(\S+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


class Counts(NamedTuple):
    """What the parameters of a compiled file consist of: a row of the table."""

    sections: int
    size: int
    equal: int
    routing: int
    unknown: int


MODELS = {name: Counts(*map(int, counts)) for name, *counts in ROW.findall(PAGE.read_text())}

NAMES = {Path(name).stem: name for name in GOLDEN.names("", ".tflite")}
"""Files by their stem."""


@cache
def located(name: str) -> tuple[CompiledModel, NetworkSections]:
    """A compiled file of the table, and where the values of its graph are."""
    model = CompiledModel.load(GOLDEN.path(NAMES[f"{name}_edgetpu"]))
    return model, locate_sections(model, GOLDEN.path(NAMES[name]).read_bytes())


def remainder(model: CompiledModel, sections: NetworkSections) -> tuple[int, int]:
    """The bytes of the parameters in no section: of rows that route values between tiles, and of others."""
    routing = unknown = 0
    for streamed, blob in enumerate(model.parameters.arrays):
        free = np.ones(blob.size, np.bool_)
        for each in sections.placed:
            if each.streamed == bool(streamed):
                each.of(free)[:] = False
        rows = blob[free].reshape(-1, ALIGNMENT)
        for binary, run in groupby(rows, lambda row: row.max() <= 1):
            data = np.concatenate(list(run))
            if binary and data.any():
                routing += data.size
            else:
                unknown += data.size
    return routing, unknown


def test_the_page_has_a_row_for_every_compiled_model_whose_graph_is_there() -> None:
    compiled = {name.removesuffix("_edgetpu") for name in NAMES if name.endswith("_edgetpu")}
    assert set(MODELS) == compiled & set(NAMES)


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_gives_the_bytes_that_the_compiler_wrote(name: str) -> None:
    model, sections = located(name)
    blobs = model.parameters.arrays
    for each in sections.placed:
        np.testing.assert_array_equal(each.of(blobs[each.streamed]), each.section.data)
        assert not each.own_scales
    equal = sum(each.size for each in sections.placed)
    routing, unknown = remainder(model, sections)
    assert Counts(len(sections.placed), model.parameter_bytes, equal, routing, unknown) == MODELS[name]
    assert equal + routing + unknown == model.parameter_bytes
    assert sections.missing == ()


@pytest.mark.parametrize("name", MODELS)
def test_sections_give_back_the_values_of_the_graph(name: str) -> None:
    _, sections = located(name)
    tensors = sections.graph.tensors
    for placed in sections.placed:
        section = placed.section
        if isinstance(section.layout, LayerLayout):
            assert section.layout.decode(section.data).tobytes() == tensors[section.tensor].data
        if section.bias != ABSENT:
            bias = section.weight_layout.decode_bias(section.data)
            assert bias.tobytes() == tensors[section.bias].data


POSENET = "posenet_mobilenet_v1_075_353_481_16_quant_decoder"


def section_of(sections: NetworkSections, tensor: str) -> PlacedSection:
    return next(each for each in sections.placed if each.section.name == tensor)


def with_parameters(model: CompiledModel, blob: NDArray[np.uint8]) -> CompiledModel:
    assert model.caching is not None
    return replace(model, caching=replace(model.caching, parameters=blob.tobytes()))


def test_a_head_that_was_compiled_with_another_scale_keeps_the_multipliers_of_the_file() -> None:
    model, sections = located(POSENET)
    head = section_of(sections, "float_heatmaps/conv")
    blob = np.frombuffer(model.parameters.cached, np.uint8).copy()
    layout = head.section.weight_layout
    scaled = layout.decode_multipliers(head.section.data) * np.float32(1.25)
    layout.encode_multipliers(scaled, head.of(blob))
    changed = locate_sections(with_parameters(model, blob), GOLDEN.path(NAMES[POSENET]).read_bytes())
    found = section_of(changed, "float_heatmaps/conv")
    assert (found.offset, found.own_scales) == (head.offset, True)
    np.testing.assert_array_equal(found.section.data, head.of(blob))
    assert [each.section.name for each in changed.placed if each.own_scales] == ["float_heatmaps/conv"]
    assert changed.missing == ()


def test_the_scale_of_an_output_is_that_of_the_compiled_file() -> None:
    """The graph next to it may come of another calibration."""
    model, sections = located(POSENET)
    head = section_of(sections, "float_heatmaps/conv")
    layers = tuple(
        replace(each, dequantization_factor=each.dequantization_factor / 2)
        if each.name == "float_heatmaps"
        else each
        for each in model.output_layers
    )
    blob = np.frombuffer(model.parameters.cached, np.uint8).copy()
    layout = head.section.weight_layout
    layout.encode_multipliers(layout.decode_multipliers(head.section.data) * np.float32(2), head.of(blob))
    changed = replace(with_parameters(model, blob), output_layers=layers)
    sections = locate_sections(changed, GOLDEN.path(NAMES[POSENET]).read_bytes())
    found = section_of(sections, head.section.name)
    assert (found.offset, found.own_scales) == (head.offset, False)


def test_multipliers_that_are_no_multiple_of_the_graphs_are_not_taken() -> None:
    model, sections = located(POSENET)
    head = section_of(sections, "float_heatmaps/conv")
    blob = np.frombuffer(model.parameters.cached, np.uint8).copy()
    layout = head.section.weight_layout
    other = layout.decode_multipliers(head.section.data)
    other[3] *= np.float32(1.5)
    layout.encode_multipliers(other, head.of(blob))
    changed = locate_sections(with_parameters(model, blob), GOLDEN.path(NAMES[POSENET]).read_bytes())
    assert [each.name for each in changed.missing] == ["float_heatmaps/conv"]
    assert remainder(model, changed) == (0, head.size)


def test_layers_with_the_same_bytes_are_marked() -> None:
    model, sections = located("looming_64x64_3x3")
    first, second = sections.placed
    blob = np.frombuffer(model.parameters.cached, np.uint8).copy()
    second.of(blob)[:] = first.of(blob)
    graph = GOLDEN.path(NAMES["looming_64x64_3x3"]).read_bytes()
    tensors = sections.graph.tensors
    weights = np.frombuffer(tensors[first.section.tensor].data, np.int8).reshape(1, 3, 3, 1)
    twins = replace_tensor(graph, second.section.name, weights)
    found = locate_sections(with_parameters(model, blob), twins)
    assert [each.ambiguous for each in found.placed] == [True, True]
    again = locate_sections(with_parameters(model, blob), graph)
    assert [each.name for each in again.missing] == [second.section.name]
    assert [each.ambiguous for each in again.placed] == [True]


def test_a_model_that_was_compiled_together_with_another_holds_the_same_sections() -> None:
    name = "mobilenet_v1_0.25_128_quant"
    together = CompiledModel.load(
        GOLDEN.path(NAMES[f"{name}_cocompiled_with_mobilenet_v1_0.5_160_quant_edgetpu"])
    )
    found = locate_sections(together, GOLDEN.path(NAMES[name]).read_bytes())
    assert sum(each.size for each in found.placed) == together.parameter_bytes == MODELS[name].size
    assert found.missing == ()


def test_a_convolution_is_found_in_the_order_of_older_compilers() -> None:
    """As in files of 2019; its weights are set and read in that order."""
    builder = GraphBuilder("convolution")
    x = builder.input("x", (1, 8, 8, 8), np.int8, scale=0.5, zero_point=0)
    weights = np.random.default_rng(0).integers(-127, 128, (16, 3, 3, 8)).astype(np.int8)
    builder.output(builder.conv_2d(x, weights, 0.01, scale=0.5, zero_point=0, name="y"))
    graph = builder.build()
    model = CompiledModel.parse(pack(graph, name="convolution"), "convolution")
    layout = convolution_layout(weights.shape).with_inputs_first()
    assert layout is not None
    blob = np.zeros(layout.size, np.uint8)
    layout.encode(weights, blob)
    (placed,) = locate_sections(with_parameters(model, blob), graph).placed
    assert (placed.offset, placed.own_scales) == (0, False)
    np.testing.assert_array_equal(placed.section.data, blob)
    np.testing.assert_array_equal(placed.section.weight_layout.decode(blob), weights)


def test_a_bias_of_zeros_may_have_its_row() -> None:
    """As in depthwise convolutions with a scale for every channel; then a bias can be set."""
    builder = GraphBuilder("depthwise")
    x = builder.input("x", (1, 8, 8, 8), np.int8, scale=0.5, zero_point=0)
    random = np.random.default_rng(0)
    weights = random.integers(-127, 128, (1, 3, 3, 8)).astype(np.int8)
    scales = random.uniform(0.01, 0.02, 8)
    bias = np.zeros(8, np.int32)
    y = builder.depthwise_conv_2d(x, weights, scales, scale=0.5, zero_point=0, bias=bias, name="y")
    builder.output(y)
    graph = builder.build()
    model = CompiledModel.parse(pack(graph, name="depthwise"), "depthwise")
    header = HeaderRows(multipliers=True, bias=True, zero_points=True)
    layout = depthwise_layout(weights.shape, 8, header)
    blob = np.zeros(layout.size, np.uint8)
    layout.encode_header(blob, bias=bias, multipliers=multipliers(0.5, scales, 0.5))
    layout.encode(weights, blob)
    (placed,) = locate_sections(with_parameters(model, blob), graph).placed
    assert (placed.offset, placed.section.weight_layout.has_bias) == (0, True)
    np.testing.assert_array_equal(placed.section.data, blob)


@pytest.mark.parametrize(("channels", "block", "lanes"), [(6, 1, 32), (6, 3, 16), (182, 91, 64)])
def test_a_head_whose_channels_are_split_is_filled_up_block_by_block(
    channels: int, block: int, lanes: int
) -> None:
    """As in detectors, whose classes of several anchors a RESHAPE splits."""
    builder = GraphBuilder("head")
    x = builder.input("x", (1, 4, 4, 8), np.int8, scale=0.5, zero_point=0)
    random = np.random.default_rng(0)
    weights = random.integers(-127, 128, (channels, 1, 1, 8)).astype(np.int8)
    scales, bias = random.uniform(0.01, 0.02, channels), random.integers(1, 99, channels).astype(np.int32)
    y = builder.conv_2d(x, weights, scales, scale=0.5, zero_point=0, bias=bias)
    builder.output(builder.reshape(y, (1, 16 * channels // block, block), name="z"))
    graph = builder.build()
    model = CompiledModel.parse(pack(graph, name="head"), "head")
    header = HeaderRows(multipliers=True, bias=True, zero_points=True)
    layout = convolution_layout(weights.shape, header).with_blocks(block)
    assert layout is not None
    blob = np.zeros(layout.size, np.uint8)
    layout.encode_header(blob, bias=bias, multipliers=multipliers(0.5, scales, 0.5))
    layout.encode(weights, blob)
    padded = -(-block // 4) * 4
    second = layout.weight_offsets[block, 0, 0, 0] - layout.weight_offsets[0, 0, 0, 0]
    assert second == (4 * padded if padded < lanes else padded // lanes * 5 * 4 * lanes + padded % lanes * 4)
    (placed,) = locate_sections(with_parameters(model, blob), graph).placed
    np.testing.assert_array_equal(placed.section.data, blob)
    np.testing.assert_array_equal(placed.section.weight_layout.decode(blob), weights)
    np.testing.assert_array_equal(placed.section.weight_layout.decode_bias(blob), bias)
