"""The demo starts, watches and ends real processes; fakes that misbehave on purpose stand for the nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="needs rosbags")

from rosbags.rosbag2 import Writer
from rosbags.typesys import Stores, get_typestore

from demo.bag.image_bag import IMAGE, ImageBag
from demo.errors import GraphError
from demo.nodes import select
from demo.processes import Graph, Process, find_executable, isolate
from demo.scene.scene_bag import write_scene
from edgetpu_dashboard.scene.scene import Scene
from testdata.demo_process import DemoProcess
from testdata.timeouts import PATIENCE

ROOT = Path(__file__).parents[1]
FAKE = Path(__file__).with_name("demo_fake_node.py")

pytest.importorskip("rclpy", reason="needs a sourced ROS 2")

from demo.replay import Replay  # noqa: E402

pytestmark = pytest.mark.timeout(600)  # a busy machine makes minutes of half a minute

Start = Callable[..., DemoProcess]

SCENE = Scene(width=80, height=60, frames=6)
"""The scene of the demo in a few small images."""


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An install tree with the fakes as executables, in front of the real one."""
    for package, executable in (("edgetpu_driver", "edgetpu_node"), ("edgetpu_perception", "spot_tracker")):
        path = tmp_path / "install" / "lib" / package / executable
        path.parent.mkdir(parents=True)
        path.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        path.chmod(0o755)
    prefix = tmp_path / "install"
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{prefix}{os.pathsep}{os.environ.get('AMENT_PREFIX_PATH', '')}")
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    return prefix


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scene(tmp_path_factory.mktemp("scene") / "bag", SCENE)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def start(
    start_demo: Start, tmp_path: Path, prefix: Path, bag: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Start the demo on six images of the scene, or with other options, and fakes that behave so."""
    assert prefix.is_dir()
    (tmp_path / "parameters.yaml").write_text("{}")

    def start(behaviour: str = "", **options: Any) -> DemoProcess:
        monkeypatch.setenv("FAKE_NODE", behaviour)
        given = {
            "bag": bag,
            "nodes": "spot_tracker",
            "params_file": tmp_path / "parameters.yaml",
            "output": output,
            "startup_timeout": PATIENCE,
            "timeout": PATIENCE,
        } | options
        return start_demo(*(f"--{name.replace('_', '-')}={value}" for name, value in given.items()))

    return start


def left_behind(prefix: Path) -> list[str]:
    """Processes of the fakes that still run."""
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if f"{prefix}/lib" in line]


def node(output: Path) -> dict[str, object]:
    summary = json.loads((output / "summary.json").read_text())
    return dict(summary["nodes"]["spot_tracker"])


def test_every_image_gets_one_result_with_its_own_stamp(start: Start, prefix: Path, output: Path) -> None:
    with start() as demo:
        assert demo.wait() == 0, demo.errors
    result = node(output)
    assert (result["images"], result["results"], result["dropped"]) == (6, 6, 0)
    rows = result["rows"]
    assert isinstance(rows, list)
    assert [row["stamp_ns"] for row in rows] == [SCENE.stamp_ns(frame) for frame in range(6)]
    assert [row["x"] for row in rows] == [float(np.float32(n / 100)) for n in range(1, 7)]
    assert "spot_tracker" in demo.output
    assert left_behind(prefix) == []


class SetAhead:
    """Stands for `time`, which can be set ahead: no test waits until time is up."""

    perf_counter = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetAhead:
    """The clock of the replay."""
    clock = SetAhead()
    monkeypatch.setattr("demo.replay.time", clock)
    return clock


@pytest.fixture
def graph_of_fakes(
    prefix: Path, bag: Path, tmp_path: Path, ros_domain: int, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Graph]:
    """Make the graph of fakes that behave so."""
    assert prefix.is_dir()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(ros_domain))
    with ImageBag(bag) as source:
        remappings = (("image", source.topic.base),)

    def graph(behaviour: str) -> Graph:
        monkeypatch.setenv("FAKE_NODE", behaviour)
        driver = Process("edgetpu", "edgetpu_driver", "edgetpu_node")
        tracker = Process("spot_tracker", "edgetpu_perception", "spot_tracker", remappings=remappings)
        return Graph([driver, tracker], tmp_path / "log")

    return graph


def test_an_image_without_a_result_is_counted_as_dropped(
    graph_of_fakes: Callable[[str], Graph], bag: Path, clock: SetAhead
) -> None:
    def check() -> None:
        if "left out" in graph.log("spot_tracker").read_text():
            clock.ahead = PATIENCE

    with (
        graph_of_fakes("deaf") as graph,
        ImageBag(bag) as source,
        Replay(select("spot_tracker"), source.topic, check) as replay,
    ):
        replay.wait_until_ready(PATIENCE, lambda _: None)
        played = replay.play(source.records(), rate=None, timeout=PATIENCE, progress=lambda: None)
    result = played["spot_tracker"]
    assert (result.images, len(result.rows), result.dropped) == (6, 5, 1)


def test_a_graph_that_is_not_ready_in_time_says_what_is_missing(
    graph_of_fakes: Callable[[str], Graph], bag: Path, clock: SetAhead
) -> None:
    def say(missing: str) -> None:
        if missing == "waiting for edgetpu: no Edge TPU found":
            clock.ahead = PATIENCE

    with (
        graph_of_fakes("absent") as graph,
        ImageBag(bag) as source,
        Replay(select("spot_tracker"), source.topic, graph.check) as replay,
        pytest.raises(GraphError, match=f"not ready after {PATIENCE:g} s: waiting for edgetpu: no Edge TPU"),
    ):
        replay.wait_until_ready(PATIENCE, say)


def test_malformed_images_are_skipped_without_a_wait(start: Start, tmp_path: Path, output: Path) -> None:
    store = get_typestore(Stores.ROS2_JAZZY)
    header = store.types["std_msgs/msg/Header"](store.types["builtin_interfaces/msg/Time"](1, 0), "camera")
    short = store.types[IMAGE](header, 480, 640, "rgb8", 0, 1920, np.zeros(30, np.uint8))
    with Writer(tmp_path / "malformed", version=9) as bag:
        connection = bag.add_connection("/image", IMAGE, typestore=store)
        bag.write(connection, 1, store.serialize_cdr(short, IMAGE))
        bag.write(connection, 2, bytes(store.serialize_cdr(short, IMAGE))[:20])
    with start(bag=tmp_path / "malformed") as demo:
        assert demo.wait() == 1
    reason = "2 images, 2 of them malformed; it said: the last image was cut off"
    assert f"spot_tracker gave no result: {reason}" in demo.errors
    assert (node(output)["dropped"], node(output)["malformed"]) == (0, 2)


@pytest.mark.parametrize(
    ("behaviour", "options", "message"),
    [
        ("breaks", {}, " ended with code 1: this is why it cannot start"),
        ("dies", {}, "spot_tracker ended with code 1: RuntimeError: no more images please"),
        ("mute", {"timeout": 0.5}, "spot_tracker did not answer 3 images in a row; it says: ok"),
        ("refused", {}, "[demo] spot_tracker cannot start: no such model"),
    ],
)
def test_a_graph_that_fails_is_explained_in_one_line(
    start: Start, prefix: Path, behaviour: str, options: dict[str, float], message: str
) -> None:
    with start(behaviour, **options) as demo:
        assert demo.wait() == 1
    assert message in demo.errors.splitlines()[-1]
    assert "Traceback" not in demo.errors
    assert left_behind(prefix) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_ends_the_demo_and_its_graph(start: Start, prefix: Path, number: signal.Signals) -> None:
    with start("absent") as demo:
        while not demo.errors.endswith("no Edge TPU found\n"):
            assert demo.running
            time.sleep(0.02)
        demo.send_signal(number)
        assert demo.wait() == 130, demo.errors
    assert demo.errors.rpartition("no Edge TPU found\n")[2] == "[demo] interrupted\n"
    assert left_behind(prefix) == []


class Clock:
    """Stands for `time`: a sleep lasts as long as it is asked to, and takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


STUBBORN = f"""#!{sys.executable}
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""
"""An executable that ignores the interrupt. It has no children, which would end some time after it."""


def test_a_process_that_does_not_stop_is_killed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("demo.processes.time", clock)
    stubborn = tmp_path / "lib" / "package" / "stubborn"
    stubborn.parent.mkdir(parents=True)
    stubborn.write_text(STUBBORN)
    stubborn.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    with Graph([Process("stubborn", "package", "stubborn")], tmp_path / "log") as graph:
        while "ready" not in graph.log("stubborn").read_text():
            graph.check()
    assert 2.69 < clock.now < 2.73
    assert left_behind(tmp_path) == []


WAITING_NODE = f"""#!{sys.executable}
import time
from edgetpu_driver.node_kit.process.process_end import stop_with_starter
stop_with_starter()
try:
    print("ready", flush=True)
    while True:
        time.sleep(0.01)  # a pause would miss a signal that comes right before it
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
"""An executable that does with signals what a node does."""

WAITING_DEMO = """
import signal, sys
from pathlib import Path
from demo.processes import Graph, Process
with Graph([Process("node", "package", "node")], Path(sys.argv[1])):
    signal.pause()
"""


def test_the_processes_end_with_a_demo_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, log = tmp_path / "lib" / "package" / "node", tmp_path / "log" / "node.log"
    node.parent.mkdir(parents=True)
    node.write_text(WAITING_NODE)
    node.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", WAITING_DEMO, log.parent], cwd=ROOT) as demo:
        while not log.exists() or "ready" not in log.read_text():
            assert demo.poll() is None
        demo.kill()
    while "interrupted" not in log.read_text():
        pass


def test_a_command_line_has_parameters_after_those_of_the_file(prefix: Path) -> None:
    process = Process(
        name="spot_tracker",
        package="edgetpu_perception",
        executable="spot_tracker",
        parameters_file=Path("edgetpu.yaml"),
        parameters=(("image_transport", "raw"),),
        remappings=(("image", "/camera/image_raw"),),
    )
    executable, *arguments = process.command()
    assert executable == str(prefix / "lib/edgetpu_perception/spot_tracker")
    assert " ".join(arguments) == (
        "--ros-args -r __node:=spot_tracker --params-file edgetpu.yaml "
        "-p spot_tracker:image_transport:=raw -r image:=/camera/image_raw"
    )


def test_an_executable_that_is_not_installed_is_named() -> None:
    with pytest.raises(GraphError, match="no_package/no_executable is not installed"):
        find_executable("no_package", "no_executable")


def test_the_graph_stays_on_this_machine_in_its_own_domain() -> None:
    settings = isolate({"ROS_DISTRO": "jazzy"})
    assert settings["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert 1 <= int(settings["ROS_DOMAIN_ID"]) <= 100
    assert isolate({"ROS_DISTRO": "humble"})["ROS_LOCALHOST_ONLY"] == "1"


def test_runs_that_start_at_once_have_domains_of_their_own() -> None:
    mine = isolate({})["ROS_DOMAIN_ID"]
    script = f"from demo.processes import reserve_domain; print(reserve_domain({mine}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "False\n"


def test_a_domain_and_a_middleware_profile_of_the_user_are_left_alone() -> None:
    settings = isolate({"ROS_DOMAIN_ID": "5", "FASTRTPS_DEFAULT_PROFILES_FILE": "mine.xml"})
    assert "ROS_DOMAIN_ID" not in settings
    assert "FASTRTPS_DEFAULT_PROFILES_FILE" not in settings
    assert "RMW_FASTRTPS_USE_QOS_FROM_XML" not in settings
