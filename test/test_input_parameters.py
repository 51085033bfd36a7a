"""channel_order, mean, std and input_range of the vision nodes: what the model gets, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")

from rclpy.parameter import Parameter

from edgetpu_driver.errors import InputError
from edgetpu_vision import Embedder, Normalisation
from edgetpu_vision.nodes.vision_parameters import normalisation_of
from testdata.running_nodes.vision_nodes import MODELS, Nodes, model, picture

UNSET: dict[str, Any] = {"mean": [], "std": [], "input_range": []}
PER_CHANNEL = "three in the order of the model's channels; got"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"mean": [127.5], "std": [64.0]}, Normalisation((127.5,), (64.0,))),
        ({"mean": [104, 117, 124]}, Normalisation((104, 117, 124), (1, 1, 1))),
        ({"std": [255]}, Normalisation((0,), (255,))),
        ({"mean": [1.0, 2.0, 3.0], "std": [50.0]}, Normalisation((1, 2, 3), (50, 50, 50))),
        ({"mean": [9.0], "std": [5.0, 6.0, 7.0]}, Normalisation((9, 9, 9), (5, 6, 7))),
        ({"input_range": [-1.0, 1.0]}, Normalisation((127.5,), (127.5,))),
    ],
    ids=str,
)
def test_a_missing_mean_is_0_and_a_missing_std_1_unless_both_are_missing(
    values: dict[str, Any], expected: Normalisation | None
) -> None:
    assert normalisation_of({**UNSET, **values}) == expected


@pytest.mark.parametrize("name", ["mean", "std"])
def test_a_mean_or_std_excludes_an_input_range(name: str) -> None:
    with pytest.raises(InputError, match="expected either input_range or mean and std; got input_range"):
        normalisation_of({**UNSET, "input_range": [0.0, 1.0], name: [2.0]})


@pytest.fixture(scope="module")
def nodes(graph: Any, start_node: Callable[..., Any]) -> Nodes:
    return Nodes(graph, start_node, models={"embedder": MODELS["embedder"]})


def change(nodes: Nodes, **values: Any) -> None:
    for name, value in values.items():
        result = nodes.set("embedder", name, Parameter(name, value=value).to_parameter_msg().value)
        assert result.successful, result.reason


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({"channel_order": "bgr"}, {"channel_order": "bgr"}),
        ({"mean": 100.0, "std": 90.0}, {"normalisation": Normalisation.of(100.0, 90.0)}),
        (
            {"std": [58, 57, 60], "mean": [124.0, 116.0, 104.0], "channel_order": "bgr"},
            {"channel_order": "bgr", "normalisation": Normalisation.of((124, 116, 104), (58, 57, 60))},
        ),
    ],
    ids=str,
)
def test_the_model_gets_what_the_parameters_say_while_the_node_runs(
    nodes: Nodes, values: dict[str, Any], options: dict[str, Any]
) -> None:
    image = picture("bird")
    plain = nodes.show(image, "embedder")["embedder"].vector
    change(nodes, **values)
    vector = nodes.show(image, "embedder")["embedder"].vector
    change(nodes, **{name: "rgb" if name == "channel_order" else "" for name in values})
    np.testing.assert_array_equal(vector, Embedder(model("embedder"), **options).update(image).vector)
    assert not np.array_equal(vector, plain)
    np.testing.assert_array_equal(nodes.show(image, "embedder")["embedder"].vector, plain)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("channel_order", "gbr", "expected one of rgb, bgr; got 'gbr'"),
        ("mean", [1.0, 2.0], f"expected one finite number, or {PER_CHANNEL} [1.0, 2.0]"),
        ("mean", float("nan"), f"expected one finite number, or {PER_CHANNEL} [nan]"),
        ("mean", "bird", f"expected one finite number, or {PER_CHANNEL} ['bird']"),
        ("std", 0.0, f"expected one finite number other than 0, or {PER_CHANNEL} [0.0]"),
        (
            "std",
            [1.0, 0.0, 1.0],
            f"expected one finite number other than 0, or {PER_CHANNEL} [1.0, 0.0, 1.0]",
        ),
        ("std", float("inf"), f"expected one finite number other than 0, or {PER_CHANNEL} [inf]"),
        ("std", 1e-40, "expected a mean and std that give numbers within float32; got [0.0], [1e-40]"),
        ("input_range", [0.0, 1e-310], "expected black < white, both within float32; got 0.0..1e-310"),
    ],
)
def test_nonsense_is_refused_with_what_was_expected(nodes: Nodes, name: str, value: Any, reason: str) -> None:
    result = nodes.set("embedder", name, Parameter(name, value=value).to_parameter_msg().value)
    assert (result.successful, result.reason) == (False, f"{name}: {reason}")


def test_a_node_with_a_range_refuses_a_mean(nodes: Nodes) -> None:
    change(nodes, input_range=[0.0, 1.0])
    result = nodes.set("embedder", "mean", Parameter("mean", value=3.0).to_parameter_msg().value)
    expected = "expected either input_range or mean and std; got input_range [0.0, 1.0], mean [3.0], std []"
    assert (result.successful, result.reason) == (False, f"mean: {expected}")
    change(nodes, input_range="", mean=3.0, std=4.0)
    change(nodes, mean="", std="")


def test_a_node_that_cannot_start_with_these_values_says_why(start_node: Callable[..., Any]) -> None:
    process = start_node("edgetpu_vision", "embedder", std="[2.0, 0.0, 2.0]")
    assert process.wait() == 1
    assert f"parameter 'std': expected one finite number other than 0, or {PER_CHANNEL}" in process.output
    assert "Traceback" not in process.output
