"""The demo end to end: a bag through the real driver and perception nodes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("rosbags", reason="needs rosbags")

from PIL import Image
from rosbags.interfaces import Connection
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from demo.__main__ import main
from demo.bag.frames import decode_record
from demo.bag.image_bag import ImageBag
from demo.bag.recorded_truth import load_truth
from demo.errors import UsageError
from demo.model import model_parameters
from demo.nodes import NODES, OWN_MODEL
from demo.scene.scene_bag import PARAMETERS_FILE, PATTERN_FILE, write_scene
from edgetpu_dashboard.scene.scene import Scene
from edgetpu_vision import Classifier
from testdata import GOLDEN
from testdata.demo_process import LONGEST_RUN, DemoProcess
from testdata.timeouts import PATIENCE

pytest.importorskip("rclpy", reason="needs a sourced ROS 2")
pytest.importorskip("ai_edge_litert", reason="the cpu and virtual backends need LiteRT")

pytestmark = pytest.mark.timeout(600)  # a busy machine makes minutes of half a minute


ROOT = Path(__file__).parents[1]
Demo = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def demo(start_demo: Callable[..., DemoProcess]) -> Demo:
    """Run the demo with `demo(output, *arguments)`; the nodes of its summary, by name."""

    def run(output: Path, *arguments: str) -> dict[str, dict[str, Any]]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("ROS_DOMAIN_ID", "ROS_HOME"):  # the demo chooses them
                patch.delenv(name, raising=False)
            patience = f"--startup-timeout={LONGEST_RUN}", f"--timeout={PATIENCE}"
            process = start_demo(f"--output={output}", *patience, *arguments)
        with process:
            assert process.wait() == 0, process.errors
        assert (output / "report.html").stat().st_size > 10_000
        return dict(json.loads((output / "summary.json").read_text())["nodes"])

    return run


SCENE = Scene(width=160, height=120, rate=15.0, turn=(3.0, 12.0), frames=240)
"""The scene of the demo with fewer and smaller images, but the same turn from image to image."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scene(tmp_path_factory.mktemp("demo") / "scene", SCENE)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo writes about the scene on the CPU."""
    return tmp_path_factory.mktemp("cpu")


@pytest.fixture(scope="module")
def on_cpu(demo: Demo, scene: Path, output: Path) -> dict[str, dict[str, Any]]:
    """The results of every node that comes with a model."""
    return demo(output, f"--bag={scene}", "--backend=cpu", f"--gif={output / 'demo.gif'}")


@pytest.mark.parametrize("node", OWN_MODEL)
def test_every_image_is_answered_under_its_own_stamp(on_cpu: dict[str, Any], node: str) -> None:
    result = on_cpu[node]
    assert (result["images"], result["results"], result["dropped"]) == (240, 240, 0)
    assert [row["stamp_ns"] for row in result["rows"]] == [SCENE.stamp_ns(frame) for frame in range(240)]
    assert 0 < result["latency_ms"]["p50"] <= result["latency_ms"]["p99"]


def test_the_lamp_is_tracked_while_it_is_on(on_cpu: dict[str, Any]) -> None:
    rows = on_cpu["spot_tracker"]["rows"][:45]  # until the camera turns away
    assert [row["x"] is None for row in rows] == [not SCENE.lit(SCENE.time(frame)) for frame in range(45)]


@pytest.mark.parametrize("node", OWN_MODEL)
def test_every_node_measures_the_truth_of_the_rendered_scene(
    on_cpu: dict[str, Any], scene: Path, node: str
) -> None:
    truths = load_truth(scene)
    assert set(on_cpu) == set(truths) == set(OWN_MODEL)
    tolerances = {value.field: value.tolerance for value in NODES[node].values if value.tolerance}
    judgement = truths[node].judge(on_cpu[node]["rows"], tolerances)
    assert judgement.compared >= 40
    assert judgement.right >= 0.95 * judgement.compared


@pytest.mark.usefixtures("on_cpu")
def test_the_report_judges_every_node_and_the_animation_shows_the_debug_images(output: Path) -> None:
    page = (output / "report.html").read_text()
    assert page.count('class="verdict good"') == 2 * len(OWN_MODEL)  # in the contents and at the node
    with Image.open(output / "demo.gif") as animation:
        assert animation.n_frames == 30  # every second picture


def first_records(bag: Path, count: int, path: Path) -> Path:
    """A bag of the first images of another one."""
    store = get_typestore(Stores.ROS2_JAZZY)
    with ImageBag(bag) as source, Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as made:
        connections: dict[str, Connection] = {}
        for record in islice(source.records(), count):
            if record.topic not in connections:
                connections[record.topic] = made.add_connection(record.topic, record.type, typestore=store)
            made.write(connections[record.topic], record.time_ns, record.cdr)
    return path


def test_the_virtual_stick_gives_the_same_rows(
    demo: Demo, scene: Path, on_cpu: dict[str, Any], tmp_path: Path
) -> None:
    """Those of the first images."""
    bag = first_records(scene, 2 * 60, tmp_path / "scene")  # a calibration comes with each image
    for name in (PATTERN_FILE, PARAMETERS_FILE):
        shutil.copy(scene / name, bag)
    on_stick = demo(tmp_path, f"--bag={bag}", "--backend=virtual")
    assert {name: node["rows"] for name, node in on_stick.items()} == {
        name: node["rows"][:60] for name, node in on_cpu.items()
    }


def test_without_a_bag_a_scene_is_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def render(path: Path) -> Path:
        raise UsageError(f"rendered to {path}")

    monkeypatch.setattr("signal.signal", lambda *_: None)  # those of the test run stay
    monkeypatch.setattr("demo.run.write_scene", render)
    assert main([f"--output={tmp_path}"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"[demo] rendered to {tmp_path}/scene"


def test_a_recorded_bag_is_answered_image_by_image(
    demo: Demo, tmp_path: Path, recorded_bag: Callable[[str], Path]
) -> None:
    bag = first_records(recorded_bag("gopro_max_compressed_mcap"), 60, tmp_path / "bag")
    results = demo(tmp_path, f"--bag={bag}", "--nodes=spot_tracker,pattern_tracker", "--backend=cpu")
    for result in results.values():
        assert (result["images"], result["results"], result["dropped"]) == (60, 60, 0)
        stamps = [row["stamp_ns"] for row in result["rows"]]
        assert stamps == sorted(set(stamps))
        assert stamps[0] == 1_600_000_000_000_000_000
    assert results["pattern_tracker"]["rows"][1]["valid"]  # it looks for a part of the first image


def test_a_vision_node_classifies_a_recorded_bag_as_its_algorithm_does(
    demo: Demo, tmp_path: Path, recorded_bag: Callable[[str], Path]
) -> None:
    path = recorded_bag("gopro_max_raw_sqlite3")
    model = GOLDEN.path("vision/mobilenet_v1_0.25_128_quant.tflite")
    labels = GOLDEN.path("vision/imagenet_labels.txt")
    arguments = ("--nodes=classifier", f"--model={model}", f"--labels={labels}", "--backend=cpu")
    result = demo(tmp_path, f"--bag={path}", *arguments)["classifier"]
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
        (
            ["--nodes=spot_tracker", "--model=/nowhere.tflite"],
            "MODEL needs exactly one vision node in NODES; got none",
        ),
        (["--nodes=classifier", "--labels=coco"], "LABELS needs MODEL as well"),
    ],
)
def test_a_model_that_cannot_be_used_is_reported_in_one_line(
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


def test_names_of_files_reach_the_nodes_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "run #2: it's"
    folder.mkdir()
    model, labels = folder / "model.tflite", folder / "labels.txt"
    for file in (model, labels):
        file.write_text("")
    of_driver, of_model = model_parameters(str(model), str(labels), (NODES["classifier"],))
    read = {name: yaml.safe_load(value) for name, value in (*of_driver, *of_model)}
    assert read["model_dirs"][0] == str(folder)
    assert (read["model"], read["labels"]) == (str(model), str(labels))


def test_a_folder_that_cannot_be_written_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # those of the test run stay
    (tmp_path / "file").write_text("")
    assert main([f"--output={tmp_path}/file"]) == 1
    assert capsys.readouterr().err == f"[demo] {tmp_path}/file/summary.json: Not a directory\n"


@pytest.mark.parametrize(
    "argument",
    ["--hfov=0", "--hfov=180", "--hfov=nan", "--timeout=0", "--timeout=nan", "--startup-timeout=-1"],
)
def test_numbers_without_a_meaning_are_refused_before_anything_starts(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([argument, "--nodes=none"])
    assert left.value.code == 2
    name, _, value = argument.partition("=")
    assert re.search(f"argument {name}: expected .*; got '{value}'\n", capsys.readouterr().err)


def test_a_missing_package_is_reported_in_one_line() -> None:
    command = [sys.executable, "-S", "-m", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={}, cwd=ROOT)
    assert done.returncode == 1
    assert re.fullmatch(
        r"\[demo\] No module named '.*': run `make demo`, or install .* a built workspace\n", done.stderr
    )
