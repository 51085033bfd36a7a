"""The engines of one model look for its weights once."""

from __future__ import annotations

import json
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs LiteRT: pip install ai-edge-litert")

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.engines.divisible_work import run_pieces
from edgetpu_driver.errors import ModelUnsupportedError
from edgetpu_driver.matrix.loaded_matrix import LoadedMatrix
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack
from edgetpu_driver.virtual.usb_port import Handle
from edgetpu_driver.weights import weight_locations
from edgetpu_driver.weights.sidecar_files import SidecarFiles
from edgetpu_driver.weights.weight_locations import WeightLocations
from edgetpu_driver.weights.weight_request import WeightRequest
from testdata.devices.virtual_backend import backend_of

pytestmark = pytest.mark.usefixtures("graphs_in_this_process")

SIZE = 64
GRAPH = dense.build(SIZE)
FOUR_TILES = np.random.default_rng(0).uniform(-0.5, 0.5, (2 * SIZE, 2 * SIZE)).astype(np.float32)


class RecordedStick(VirtualEdgeTpu):
    """A virtual stick that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def bulk_write(self, dev_handle: Handle, ep: int, intf: int, data: array[int], timeout: int) -> int:
        """Keep the bytes and pass them on."""
        self.written.append(data.tobytes())
        return super().bulk_write(dev_handle, ep, intf, data, timeout)


def swap_four_tiles() -> list[bytes]:
    """What a swap of a matrix in four tiles puts on the wire."""
    stick = RecordedStick()
    backend = backend_of(stick)
    backend.open()
    model = backend.parse(Path("dense.tflite"), GRAPH)
    matrix = LoadedMatrix(backend.attach(model), partial(backend.attach, model))
    run_pieces(matrix.setting_weights(WeightRequest(FOUR_TILES)))
    backend.close()
    return stick.written


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models whose graphs were searched for their weights."""
    names: list[str] = []
    original = weight_locations.search

    def counted(model: CompiledModel, sidecars: SidecarFiles) -> Any:
        names.append(model.name)
        return original(model, sidecars)

    monkeypatch.setattr(weight_locations, "search", counted)
    return names


def test_a_swap_of_a_matrix_in_tiles_searches_the_graph_once(searched: list[str]) -> None:
    swap_four_tiles()
    assert searched == ["dense"]


def test_the_graph_is_searched_once_however_often_the_stick_returns(searched: list[str]) -> None:
    backend = backend_of(VirtualEdgeTpu())
    model = backend.parse(Path("dense.tflite"), GRAPH)
    for _ in range(2):
        backend.open()
        backend.attach(model).set_weights(WeightRequest(FOUR_TILES[:SIZE, :SIZE]))
        backend.close()
    assert searched == ["dense"]


def test_the_wire_is_that_of_a_search_for_every_tile(
    monkeypatch: pytest.MonkeyPatch, searched: list[str]
) -> None:
    shared = swap_four_tiles()
    monkeypatch.setattr(WeightLocations, "holds_for", lambda *_: False)
    assert swap_four_tiles() == shared
    assert len(searched) == 1 + 5  # the first engine is that of the file


def test_a_search_does_not_hold_for_a_model_with_other_parameters() -> None:
    model, other = (
        CompiledModel.parse(pack(dense.build(size), name="dense"), "dense") for size in (SIZE, 2 * SIZE)
    )
    assert WeightLocations(model).holds_for(model)
    assert not WeightLocations(model).holds_for(other)


@pytest.mark.parametrize("number", ["1" + 400 * "0", "Infinity", "NaN"], ids=["10^400", "infinity", "NaN"])
@pytest.mark.parametrize("key", ["kernel_height", "conv_weight_scale", "color_weight_scale", "offset"])
def test_a_sidecar_with_numbers_out_of_range_is_refused(key: str, number: str) -> None:
    if key == "offset":
        text = f'{{"conv_weight_offsets": [{number}]'
    elif key == "color_weight_scale":
        text = f'{{"color_weight_scale": {number}'
    else:
        text = f'{{"conv_weight_offsets": [0], "{key}": {number}'
    rest: dict[str, Any] = {"kernel_height": 1, "kernel_width": 1, "channels": 1, "conv_weight_scale": 0.1}
    rest |= {"conv_weight_blob": "pc_params", "conv_weight_zero_point": 0}
    sidecar = {**rest, **json.loads(text + "}")}
    model = CompiledModel.parse(pack(small_pooling(), name="pooling"), "pooling")
    with pytest.raises(ModelUnsupportedError, match="'pooling'"):
        weight_locations.search(model, SidecarFiles(b"", sidecar))


def small_pooling() -> bytes:
    """A graph without weights."""
    graph = GraphBuilder("pooling")
    x = graph.input("x", (1, 4, 4, 3), np.int8, scale=0.1, zero_point=0)
    graph.output(graph.max_pool_2d(x, 2))
    return graph.build()
