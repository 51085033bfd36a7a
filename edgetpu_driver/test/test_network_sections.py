"""The parameters of whole networks: from their graphs, byte for byte what the compiler wrote."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.parameters.layer_layout import LayerLayout
from edgetpu_driver.tflite.model_reader import ABSENT
from edgetpu_driver.weights.network_sections import NetworkSections, locate_sections
from testdata import GOLDEN

PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"
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


def test_the_page_has_a_row_for_every_compiled_model_whose_graph_is_there() -> None:
    compiled = {name.removesuffix("_edgetpu") for name in NAMES if name.endswith("_edgetpu")}
    assert set(MODELS) == compiled & set(NAMES)


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_gives_the_bytes_that_the_compiler_wrote(name: str) -> None:
    model, sections = located(name)
    blobs = [np.frombuffer(each, np.uint8) for each in (model.parameters.cached, model.parameters.streamed)]
    for each in sections.placed:
        np.testing.assert_array_equal(each.of(blobs[each.streamed]), each.section.data)
        assert not each.own_scales
    equal = sum(each.size for each in sections.placed)
    left = {True: 0, False: 0}
    for rest in sections.remainders:
        left[rest.is_routing] += rest.size
    counts = Counts(len(sections.placed), model.parameter_bytes, equal, left[True], left[False])
    assert counts == MODELS[name]
    assert equal + left[True] + left[False] == model.parameter_bytes
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
