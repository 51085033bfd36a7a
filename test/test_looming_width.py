"""A looming node chooses the width of its model by the first image, if the driver has that model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from sensor_msgs.msg import Image

from edgetpu_driver.images.region import WHOLE, Region
from edgetpu_msgs.msg import TimeToContact
from edgetpu_msgs.srv import ListModels
from edgetpu_perception.graphs import families
from edgetpu_perception.time_to_contact.looming import Looming
from testdata.running_nodes.running_tracker import image_message

WIDE = np.random.default_rng(1).integers(0, 256, (60, 180), np.uint8)
"""Three times as wide as high."""

_Condition = Callable[[list[TimeToContact]], bool]


@pytest.fixture
def node(graph: Any, tmp_path: Path) -> Iterator[Any]:
    """A looming node beside a driver."""
    from edgetpu_driver.nodes.driver_node import DriverNode
    from edgetpu_perception.nodes.looming_node import LoomingNode

    driver = DriverNode(cli_args=["--ros-args", "-p", "backend:=cpu", "-p", f"model_dirs:=['{tmp_path}']"])
    arguments = ["--ros-args", "-r", "image:=/wide_camera", "-p", f"model_dir:={tmp_path}"]
    node = LoomingNode(cli_args=[*arguments, "-p", "qos_reliability:=reliable"])
    graph.add_node(driver)
    graph.add_node(node)
    yield node
    node.destroy_node()
    driver.destroy_node()


@pytest.fixture
def looming(graph: Any, node: Any) -> Callable[[_Condition], list[TimeToContact]]:
    """Shows wide images to the node until its results since then fulfil a condition; returns them."""
    del node
    images = graph.node.create_publisher(Image, "/wide_camera", 10)
    results = graph.collect(TimeToContact, "/looming/time_to_contact")
    tenths = itertools.count(1)

    def show_until(condition: _Condition) -> list[TimeToContact]:
        results.clear()

        def shown() -> bool:
            seconds, tenth = divmod(next(tenths), 10)
            message = image_message(seconds, WIDE)
            message.header.stamp.nanosec = tenth * 100_000_000
            images.publish(message)
            graph.spin_for(0.05)
            return condition(results)

        graph.spin_until(shown)
        return list(results)

    return show_until


def _models(graph: Any) -> set[str]:
    return {info.name for info in graph.call(ListModels, "/edgetpu/list_models").models}


def _zones(width: int) -> Any:
    """Zones of the image as a model of this width sees them."""
    return pytest.approx(Looming(width=width).update(WIDE).zones)


def test_wide_images_are_not_squeezed(looming: Any, graph: Any) -> None:
    looming(lambda _: "looming_64x192" in _models(graph))
    wide = _zones(192)  # the square model runs until the node has heard that the other one is loaded
    looming(lambda results: bool(results) and results[-1].zones == wide)


def test_without_the_wider_model_the_square_one_runs(
    looming: Any, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "write_model", lambda *_: None)
    results = looming(lambda results: len(results) > 10)
    assert results[-1].zones == _zones(64)
    assert "looming_64x192" not in _models(graph)


def test_an_image_that_does_not_have_the_region_chooses_no_width(looming: Any, node: Any, graph: Any) -> None:
    node.algorithm.region = Region(height=100)
    looming(lambda _: node.counters.failed > 2)
    node.algorithm.region = WHOLE
    looming(lambda _: "looming_64x192" in _models(graph))
