"""The five nodes in a running graph: what they lose of a 640x480 camera in another process, and how late."""

from __future__ import annotations

import importlib
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from demo.graph import find_executable, isolate
from measured_figures.row import Row

AREA = "graph"
_NAMESPACE = "/bench"
_RESULTS = {
    "looming": ("TimeToContact", "time_to_contact"),
    "optical_flow": ("Flow", "flow"),
    "pattern_tracker": ("PatternMatch", "match"),
    "spot_tracker": ("ServoError", "servo_error"),
    "visual_compass": ("Heading", "heading"),
}
_PATIENCE = 30.0
_SETTLE = 1.0
"""Seconds after the last image until all results have come."""
_RATES = (150, 200, 225, 250, 275, 300, 350, 400)
_RATE_WITHOUT_SHARING = 60
"""Hz that five plain subscriptions with resize and inference inline hold on two cores."""
_STAMP = struct.Struct("<4xiI")
"""Seconds and nanoseconds of the header that a serialised message begins with, after its encoding."""


def rows(quick: bool = False) -> Iterator[Row]:
    """Measure, for a minute each, or for a few seconds."""
    os.environ.update(isolate())
    seconds = 6.0 if quick else 60.0
    yield from _one_process(seconds, 4.0 if quick else 10.0)
    yield from _six_processes(seconds)


def _one_process(seconds: float, step_seconds: float) -> Iterator[Row]:
    case = f"five nodes in one process, 200 Hz for {seconds:g} s"
    with _Graph(single_process=True) as graph:
        lost, p99 = graph.measure(200, seconds)
        yield Row(AREA, case, "lost", lost, "", 0, "lower")
        yield Row(AREA, case, "p99, stamp to result", p99, "ms", 10.0, "lower")
        highest = 0
        for rate in _RATES:
            lost, _ = graph.measure(rate, step_seconds)
            if lost:
                break
            highest = rate
        case = "five nodes in one process, rate that holds"
        yield Row(
            AREA,
            case,
            f"none lost in {step_seconds:g} s",
            highest,
            "Hz",
            200,
            "higher",
            _RATE_WITHOUT_SHARING,
        )


def _six_processes(seconds: float) -> Iterator[Row]:
    case = f"six processes, 60 Hz for {seconds:g} s"
    with _Graph(single_process=False) as graph:
        lost, p99 = graph.measure(60, seconds)
        yield Row(AREA, case, "lost", lost, "", 0, "lower")
        yield Row(AREA, case, "p99, stamp to result", p99, "ms", 20.0, "lower")


class _Graph:
    """A driver with the CPU backend, the five nodes, a camera, and a subscriber to all results here."""

    def __init__(self, single_process: bool) -> None:
        self._single_process = single_process
        self._processes: list[subprocess.Popen[str]] = []
        self._camera: subprocess.Popen[str] | None = None
        self._models = tempfile.TemporaryDirectory()
        self._latencies: dict[str, list[float]] = {name: [] for name in _RESULTS}

    def __enter__(self) -> _Graph:
        try:
            for command in self._commands():
                self._start(command)
            self._camera = self._start([sys.executable, "-m", "bench.camera"])
            self._listen()
            self._warm_up()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def measure(self, rate: float, seconds: float) -> tuple[int, float]:
        """Images that the node which lost most lost, and the largest 99th percentile of delays, ms."""
        for latencies in self._latencies.values():
            latencies.clear()
        published = self._show(rate, seconds)
        lost = published - min(map(len, self._latencies.values()))
        p99 = max(
            float(np.percentile(latencies, 99)) if latencies else float("inf")
            for latencies in self._latencies.values()
        )
        return lost, 1e3 * p99

    def _commands(self) -> Iterator[Sequence[str]]:
        models = self._models.name
        ros = ("--ros-args", "-r", f"__ns:={_NAMESPACE}", "--log-level", "warn")
        driver = ("-p", "backend:=cpu", "-p", f"model_dirs:=['{models}']")
        eye = ("-p", f"model_dir:={models}")
        if self._single_process:
            nodes = ("--", "--nodes", ",".join(_RESULTS))
            path = find_executable("edgetpu_perception", "single_process")
            yield [str(path), *ros, *driver, *eye, *nodes]
            return
        yield [str(find_executable("edgetpu_driver", "edgetpu_node")), *ros, *driver]
        for name in _RESULTS:
            yield [str(find_executable("edgetpu_perception", name)), *ros, *eye]

    def _start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if "bench.camera" in command else None,
            text=True,
        )
        self._processes.append(process)
        return process

    def _listen(self) -> None:
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.qos import QoSProfile

        messages: Any = importlib.import_module("edgetpu_msgs.msg")
        rclpy.init()
        self._node = rclpy.create_node("bench")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        for name, (kind, topic) in _RESULTS.items():

            def receive(message: bytes, info: Any, latencies: list[float] = self._latencies[name]) -> None:
                seconds, nanoseconds = _STAMP.unpack_from(message)
                # When the middleware had it: this process must not add to the delay.
                latencies.append(1e-9 * (info["received_timestamp"] - nanoseconds) - seconds)

            self._node.create_subscription(
                getattr(messages, kind),
                f"{_NAMESPACE}/{name}/{topic}",
                receive,
                QoSProfile(depth=5000),
                raw=True,
            )

    def _warm_up(self) -> None:
        """Show images until all nodes answer, and give the pattern tracker something to look for."""
        from bench.camera import image_message, scene

        services: Any = importlib.import_module("edgetpu_msgs.srv")
        self._line()
        end = time.monotonic() + _PATIENCE
        while not all(self._latencies.values()):
            if time.monotonic() > end:
                raise TimeoutError("the nodes do not answer")
            self._show(20, 0.5)
        client = self._node.create_client(services.SetTemplate, f"{_NAMESPACE}/pattern_tracker/set_template")
        client.wait_for_service(_PATIENCE)
        view = scene()[0]
        patch = np.ascontiguousarray(view[100:260, 100:260])
        request = services.SetTemplate.Request(patch=image_message(patch), view=image_message(view))
        answer = client.call_async(request)
        self._executor.spin_until_future_complete(answer, _PATIENCE)
        if answer.result() is None or not answer.result().success:
            raise RuntimeError(f"no template: {answer.result()}")
        self._show(60, 3.0)

    def _show(self, rate: float, seconds: float) -> int:
        """Have the camera publish, and receive results; the number of images."""
        assert self._camera is not None
        assert self._camera.stdin is not None
        self._camera.stdin.write(f"{rate} {seconds}\n")
        self._camera.stdin.flush()
        self._spin(seconds + _SETTLE)
        return int(self._line())

    def _spin(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._executor.spin_once(left)

    def _line(self) -> str:
        assert self._camera is not None
        assert self._camera.stdout is not None
        return self._camera.stdout.readline()

    def _stop(self) -> None:
        import rclpy

        if hasattr(self, "_node"):
            self._executor.shutdown()
            self._node.destroy_node()
            rclpy.shutdown()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()  # which ends the camera
            if process is not self._camera:
                process.send_signal(signal.SIGINT)
        for process in self._processes:
            _end(process)
        self._models.cleanup()


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
