"""Preparation of a run: files, the environment, and the commands of its processes."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2

from demo.processes import find_executable, isolate
from edgetpu_driver.node_kit.node_table import DRIVER, node_table
from edgetpu_driver.toolchain import dense_graph as dense
from soak.camera_messages import write_frames
from soak.checks.matrix_checks import BLOCK, write_places
from soak.checks.perception_checks import CAMERAS, LOOKING
from soak.foreign_client_kinds import CLIENTS, write_models
from soak.input_publisher import SCENES
from soak.processes import Command
from soak.result_messages import MATRIX_TOPICS

ROOT = Path(__file__).resolve().parents[1]
SOURCES, RESULT_CHECKER = "sources", "result_checker"
_REAL_PERIOD_NS, _SIMULATED_PERIOD_NS = 100_000_000, 1_000_000_000
_SIMULATED_START_NS = 1_700_000_000 * 10**9
_CLIENT_PERIOD, _SIMULATED_CLIENT_PERIOD = 0.05, 0.5
"""Periods of the foreign clients in real and in simulated time, s. Simulated time is as fast as the nodes."""
_PLACES_FILE = "soak"
HOME = "ros_home"
"""The ROS_HOME of a run, in its output directory."""
_FRAMES = "soak_frames"
_MATRIX = {
    "model": dense.name(BLOCK),
    "input_type": "sensor_msgs/msg/JointState",
    "input_fields": "position",
    "qos_reliability": "reliable",
}
_PARAMETERS: Mapping[str, Mapping[str, object]] = {
    DRIVER: {"backend": "virtual"},
    "spot_tracker": {"color": "red"},
    "reservoir": {**_MATRIX, "size": BLOCK, "horizon": 1, "washout": 20},
    "spectrum": {**_MATRIX, "length": BLOCK},
    "place_recognition": {**_MATRIX, "places": _PLACES_FILE, "min_score": 0.8, "count": 2},
}
"""Parameters of each node, besides its template and whether time is simulated."""


@dataclass(frozen=True)
class Stage:
    """The files of a run and the commands of its processes."""

    output: Path
    frames: Path
    sticks: int
    seed: int
    images: int
    """Number of images in simulated time; 0 in real time, where images are published until the end."""
    start_ns: int
    environment: Mapping[str, str]

    @classmethod
    def prepare(cls, output: Path, sticks: int, seed: int, simulated_hours: float) -> Stage:
        """Create the directory anew, with models, places, pattern and rendered frames."""
        shutil.rmtree(output, ignore_errors=True)
        home, frames = output / HOME, output.parent / _FRAMES
        write_models(home / "edgetpu" / "models")
        write_places(home / "edgetpu" / "places" / f"{_PLACES_FILE}.npz")
        frames.mkdir(parents=True, exist_ok=True)
        _render(frames)
        start = _SIMULATED_START_NS if simulated_hours else time.time_ns() // 10**9 * 10**9
        environment = {
            **_inherited(),
            **isolate(),
            "ROS_HOME": str(home),
            "ROS_LOG_DIR": str(output / "ros_logs"),
        }
        return cls(output, frames, sticks, seed, round(3600 * simulated_hours), start, environment)

    @property
    def period_ns(self) -> int:
        """Time between two images, ns."""
        return _SIMULATED_PERIOD_NS if self.images else _REAL_PERIOD_NS

    def journal(self, process: str) -> Path:
        """The file in which a process writes its outcomes."""
        return self.output / "journals" / f"{process}.jsonl"

    def journals(self) -> list[Path]:
        """The files with outcomes of all processes."""
        return sorted(self.journal("").parent.glob("*.jsonl"))

    def images_done(self) -> int:
        """Number of images published so far in simulated time."""
        try:
            return int(self._progress.read_text())
        except (OSError, ValueError):
            return 0

    @property
    def _progress(self) -> Path:
        return self.output / "images_done"

    def commands(self, seconds: float) -> list[Command]:
        """All processes of a run that begins now: the driver first, the sources of images last.

        seconds: planned duration of the run.
        """
        times = str(time.monotonic()), str(seconds)
        return [
            self._driver(),
            *(self._node(name) for name in (*CAMERAS, *MATRIX_TOPICS)),
            *(self._client(kind, number, times) for number, kind in enumerate(CLIENTS)),
            Command(
                RESULT_CHECKER,
                (*self._python("result_checker"), *self._stamps(RESULT_CHECKER)),
                is_node=False,
            ),
            self._sources(),
        ]

    def _driver(self) -> Command:
        arguments = (*self._as_node("driver_process"), str(self.sticks), *self._ros(DRIVER))
        return Command(DRIVER, arguments, reads_input=True)

    def _node(self, name: str) -> Command:
        path = find_executable(node_table()[name].package, name)
        return Command(name, (str(path), *self._ros(name)))

    def _client(self, kind: str, number: int, times: Sequence[str]) -> Command:
        period = str(_SIMULATED_CLIENT_PERIOD if self.images else _CLIENT_PERIOD)
        models = self.output / HOME / "edgetpu" / "models"
        arguments = (kind, str(self.journal(f"client_{kind}")), str(models), str(self.seed + number))
        command = (*self._as_node("foreign_client_kinds"), *arguments, period, *times)
        return Command(f"client_{kind}", command, is_node=False)

    def _stamps(self, process: str) -> tuple[str, ...]:
        return str(self.journal(process)), str(self.start_ns), str(self.period_ns)

    def _sources(self) -> Command:
        stamps = str(self.start_ns), str(self.period_ns)
        arguments = [*self._python("input_publisher"), str(self.frames), *stamps]
        if self.images:
            arguments += ["--simulated", str(self.images), "--progress", str(self._progress)]
        return Command(SOURCES, tuple(arguments), is_node=False)

    @staticmethod
    def _python(module: str) -> tuple[str, ...]:
        return sys.executable, "-m", f"soak.{module}"

    @staticmethod
    def _as_node(module: str) -> tuple[str, ...]:
        """Command that runs a module with the memory settings of an installed node."""
        return sys.executable, "-m", "soak.node_settings", f"soak.{module}"

    def _ros(self, node: str) -> tuple[str, ...]:
        parameters = dict(_PARAMETERS.get(node, {}))
        if node == "pattern_tracker":
            parameters["template"] = str(self.frames / "pattern.png")
        if self.images:
            parameters["use_sim_time"] = "true"
        arguments = [text for name, value in parameters.items() for text in ("-p", f"{name}:={value}")]
        if node in CAMERAS:
            for topic in ("image", "camera_info"):
                arguments += ["-r", f"{topic}:=/{CAMERAS[node]}/{topic}"]
        return ("--ros-args", *arguments)


def _inherited() -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


def _render(frames: Path) -> None:
    """Write the frames of both cameras and the pattern, unless an earlier run has left them."""
    described = frames / "scenes.json"
    text = json.dumps({name: repr(scene) for name, scene in SCENES.items()})
    if described.is_file() and described.read_text() == text:
        return
    for name, scene in SCENES.items():
        pictures = write_frames(frames / f"{name}.npy", scene)
        if name == LOOKING:
            left, top, width, height = scene.pattern_box()
            patch = pictures[0][top : top + height, left : left + width, ::-1]
            cv2.imwrite(str(frames / "pattern.png"), patch)
    described.write_text(text)
