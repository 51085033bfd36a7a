"""The demo end to end: a bag through the real driver and perception nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from demo.__main__ import main
from demo.bag.frames import decode_record
from demo.bag.image_bag import ImageBag
from demo.bag.truth import Judgement, load_truth
from demo.nodes import NODES, OWN_MODEL
from demo.scene.scene import Scene
from demo.scene.scene_bag import write_scene
from edgetpu_vision import Classifier
from testdata import GOLDEN

ROOT = Path(__file__).parents[1]

pytest.importorskip("rclpy", reason="needs a sourced ROS 2")
pytest.importorskip("ai_edge_litert", reason="the cpu and virtual backends need LiteRT")

pytestmark = pytest.mark.timeout(600)  # a busy machine makes minutes of half a minute


def demo(output: Path, *arguments: str) -> dict[str, Any]:
    """Run the demo with the spot tracker; its part of the summary."""
    return dict(demo_of_nodes(output, "--nodes=spot_tracker", *arguments)["spot_tracker"])


def demo_of_nodes(output: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """Run the demo; the nodes of its summary, by name."""
    own = ("ROS_DOMAIN_ID", "ROS_HOME")  # the demo chooses them
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-m", "demo", f"--output={output}", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (output / "report.html").stat().st_size > 10_000
    return dict(json.loads((output / "summary.json").read_text())["nodes"])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 images at 10 Hz; the lamp is off in three of them."""
    return write_scene(tmp_path_factory.mktemp("demo") / "scene", Scene(frames=25, rate=10.0))


@pytest.fixture(scope="module")
def on_cpu(scene: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return demo(tmp_path_factory.mktemp("cpu"), f"--bag={scene}", "--backend=cpu")


def test_every_image_is_answered_under_its_own_stamp(on_cpu: dict[str, Any]) -> None:
    assert (on_cpu["images"], on_cpu["results"], on_cpu["dropped"]) == (25, 25, 0)
    scene = Scene(rate=10.0)
    assert [row["stamp_ns"] for row in on_cpu["rows"]] == [scene.stamp_ns(frame) for frame in range(25)]
    assert 0 < on_cpu["latency_ms"]["p50"] <= on_cpu["latency_ms"]["p99"]


def test_the_lamp_is_tracked_while_it_is_on(on_cpu: dict[str, Any], scene: Path) -> None:
    truth = load_truth(scene)["spot_tracker"]
    tolerances = {value.field: value.tolerance for value in NODES["spot_tracker"].values if value.tolerance}
    assert truth.judge(on_cpu["rows"], tolerances) == Judgement(right=25, compared=25)
    assert [row["x"] is None for row in on_cpu["rows"]] == [frame in (21, 22, 23) for frame in range(25)]


def test_without_a_bag_every_node_measures_what_is_true_of_the_rendered_scene(tmp_path: Path) -> None:
    results = demo_of_nodes(tmp_path, "--backend=cpu", f"--gif={tmp_path / 'demo.gif'}")
    truths = load_truth(tmp_path / "scene")
    assert set(results) == set(truths) == set(OWN_MODEL)
    for name, result in results.items():
        assert (result["images"], result["results"]) == (Scene().frames, Scene().frames)
        tolerances = {value.field: value.tolerance for value in NODES[name].values if value.tolerance}
        judgement = truths[name].judge(result["rows"], tolerances)
        assert judgement.compared >= 80
        assert judgement.right >= 0.95 * judgement.compared, name
    page = (tmp_path / "report.html").read_text()
    assert page.count('class="verdict good"') == 2 * len(OWN_MODEL)  # in the contents and at the node
    with Image.open(tmp_path / "demo.gif") as animation:
        assert animation.n_frames == 30  # every second picture


def test_a_recorded_bag_is_answered_image_by_image(
    tmp_path: Path, recorded_bag: Callable[[str], Path]
) -> None:
    result = demo(tmp_path, f"--bag={recorded_bag('gopro_max_compressed_mcap')}", "--backend=cpu")
    assert (result["images"], result["results"], result["dropped"]) == (315, 315, 0)
    stamps = [row["stamp_ns"] for row in result["rows"]]
    assert stamps == sorted(set(stamps))
    assert stamps[0] == 1_600_000_000_000_000_000


def test_a_recorded_bag_replayed_to_every_node_gives_the_same_rows_on_both_backends(
    tmp_path: Path, recorded_bag: Callable[[str], Path]
) -> None:
    bag = recorded_bag("gopro_max_raw_sqlite3")
    cpu, virtual = (
        demo_of_nodes(tmp_path / backend, f"--bag={bag}", f"--backend={backend}")
        for backend in ("cpu", "virtual")
    )
    answered = {name: (node["images"], node["results"], node["dropped"]) for name, node in cpu.items()}
    assert answered == dict.fromkeys(OWN_MODEL, (60, 60, 0))
    assert {name: node["rows"] for name, node in virtual.items()} == {
        name: node["rows"] for name, node in cpu.items()
    }
    assert cpu["pattern_tracker"]["rows"][1]["valid"]  # it looks for a part of the first image


def test_a_vision_node_classifies_a_recorded_bag_as_its_algorithm_does(
    tmp_path: Path, recorded_bag: Callable[[str], Path]
) -> None:
    path = recorded_bag("gopro_max_raw_sqlite3")
    model = GOLDEN.path("vision/mobilenet_v1_0.25_128_quant.tflite")
    labels = GOLDEN.path("vision/imagenet_labels.txt")
    arguments = ("--nodes=classifier", f"--model={model}", f"--labels={labels}", "--backend=cpu")
    result = demo_of_nodes(tmp_path, f"--bag={path}", *arguments)["classifier"]
    assert (result["images"], result["results"], result["dropped"]) == (60, 60, 0)
    classifier = Classifier(model, min_confidence=0.1)
    with ImageBag(path, None) as bag:
        records = [record for record in bag.records() if record.topic == bag.topic.name]
    expected = [classifier.update(decode_record(record)) for record in records]
    assert [(row["valid"], row["class_id"]) for row in result["rows"]] == [
        (each.valid, float(each.classes[0].class_id) if each.valid else None) for each in expected
    ]
    assert any(each.valid for each in expected)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--nodes=classifier", "--model=/nowhere.tflite"], "no model at /nowhere.tflite"),
        (["--nodes=spot_tracker", "--model=/nowhere.tflite"], "a model is for one vision node; got none"),
        (["--nodes=classifier", "--labels=coco"], "labels are those of a model; expected MODEL too"),
    ],
)
def test_a_model_that_cannot_be_used_is_told_in_one_line(
    tmp_path: Path,
    arguments: list[str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # those of the test run stay
    assert main([f"--output={tmp_path}", *arguments]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"[demo] {reason}")
    assert errors.count("\n") == 1
