"""Saved readouts of the reservoir: which networks may use them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from rclpy.parameter import Parameter

from edgetpu_driver.errors import ArchiveError
from edgetpu_driver.files import npz_archive as archive
from edgetpu_matrix.nodes.reservoir_node import KIND, NETWORK, ReservoirNode
from edgetpu_matrix.reservoir.ridge_readout import RidgeReadout


@pytest.fixture
def reservoir(graph: Any, matrix_home: Path, tmp_path: Path) -> Iterator[Callable[..., ReservoirNode]]:  # noqa: ARG001
    """Makes a reservoir with a readout, which is in a file `path`."""
    nodes: list[ReservoirNode] = []

    def make(**values: Any) -> ReservoirNode:
        common = {"driver": "/nobody", "model_dir": str(matrix_home), "directory": str(tmp_path)}
        values = {"model": "dense_64", "size": 20} | common | values
        parameters = [Parameter(name, value=value) for name, value in values.items()]
        nodes.append(ReservoirNode(parameter_overrides=parameters, namespace=f"/readouts_{len(nodes)}"))
        return nodes[-1]

    yield make
    for node in nodes:
        node.destroy_node()


def save(path: Path, network: str) -> None:
    readout = RidgeReadout(22, 1)
    readout.add(np.ones(22), [1.0])
    readout.solve()
    archive.save(
        path, KIND, readout.to_arrays() | {"network": np.array(network), "confidence": np.array(0.9)}
    )


@pytest.mark.parametrize(
    "other",
    [{"seed": 1}, {"model": "dense_256"}, {"rescale_rows": True}, {"host_directions": 0}, {"passes": 3}],
)
def test_a_readout_is_for_the_network_and_the_rounding_it_was_trained_with(
    reservoir: Callable[..., ReservoirNode], tmp_path: Path, other: dict[str, Any]
) -> None:
    trained, finer = reservoir(passes=4), reservoir(passes=5)
    different = reservoir(**{"passes": 4} | other)
    save(tmp_path / "sine.npz", trained._description())
    for node in (trained, finer):
        node._load(tmp_path / "sine.npz")
        assert node._readout.outputs == 1
    with pytest.raises(ArchiveError, match="expected a readout for the reservoir") as raised:
        different._load(tmp_path / "sine.npz")
    assert json.dumps(other)[1:-1] in str(raised.value)


def test_a_readout_of_an_earlier_version_is_for_any_rounding(
    reservoir: Callable[..., ReservoirNode], tmp_path: Path
) -> None:
    save(tmp_path / "sine.npz", reservoir()._description(NETWORK))
    node = reservoir(rescale_rows=True)
    node._load(tmp_path / "sine.npz")
    assert node._readout.outputs == 1
