"""The vision nodes on compiled public models: on a virtual stick they publish what their graphs give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("vision_msgs", reason="needs vision_msgs")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT")


from edgetpu_vision import Classifier, Embedder, PoseEstimator, Segmenter
from testdata import GOLDEN
from testdata.graphs.pipelines import compile_pipeline
from testdata.running_nodes.vision_nodes import MODELS, Nodes, labels_file, model, picture


@pytest.fixture(scope="module")
def on_virtual_stick(
    graph: Any, start_node: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Nodes:
    models = MODELS | {"pose_estimator": "posenet_mobilenet_v1_075_353_481_16_quant_decoder"}
    del models["object_detector"]  # there is no compiled file of it
    folder = tmp_path_factory.mktemp("pipeline")
    whole = model("classifier").read_bytes()
    (folder / "chain.tflite").write_bytes(whole)
    for name, data in compile_pipeline(whole, 3, "chain").items():
        (folder / name).write_bytes(data)
    return Nodes(graph, start_node, "virtual", models, folder)


@pytest.mark.parametrize(
    ("node", "name"),
    [("classifier", "cat"), ("segmenter", "bird_segmentation"), ("embedder", "bird")],
)
def test_compiled_models_give_what_their_graphs_give(on_virtual_stick: Nodes, node: str, name: str) -> None:
    image = picture(name)
    result = on_virtual_stick.show(image, node)[node]
    if node == "classifier":
        classes = Classifier(model(node), labels=labels_file(), min_confidence=0.1).update(image).classes
        assert [each.class_id for each in result.results] == [str(each.class_id) for each in classes]
    elif node == "segmenter":
        labels = np.frombuffer(result.data, np.uint8).reshape(image.shape[:2])
        expected = Segmenter(model(node)).update(image).labels
        assert np.mean(labels == expected) > 0.99
    else:
        np.testing.assert_allclose(result.vector, Embedder(model(node)).update(image).vector, atol=1e-3)


def test_poses_are_decoded_outside_the_thread_of_the_stick(on_virtual_stick: Nodes) -> None:
    image = picture("test_image")
    result = on_virtual_stick.show(image, "pose_estimator")["pose_estimator"]
    graph = GOLDEN.path(f"models/{on_virtual_stick.models['pose_estimator']}.tflite")
    expected = PoseEstimator(graph).update(image).poses
    assert [person.score for person in result.people] == [
        pytest.approx(each.score, abs=0.02) for each in expected
    ]
    assert expected


def test_the_segments_of_a_pipeline_are_one_model(on_virtual_stick: Nodes) -> None:
    image = picture("cat")
    whole = on_virtual_stick.show(image, "classifier")["classifier"]
    segments = ",".join(f"chain_segment_{number}_of_3" for number in range(3))
    assert on_virtual_stick.set_text("classifier", "model", segments).successful
    result = on_virtual_stick.show(image, "classifier")["classifier"]
    assert [each.class_id for each in result.results] == [each.class_id for each in whole.results]
    on_virtual_stick.graph.spin_until(lambda: "chain" not in on_virtual_stick.problem("classifier"))
