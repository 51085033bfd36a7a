"""How driver nodes start, go through their life cycle, and share a name; and without a device."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState

from edgetpu_msgs.msg import DeviceStatus, ErrorCode, Tensor
from edgetpu_msgs.srv import Invoke, ListModels
from testdata import ModelFolder
from testdata.running_nodes.driver_calls import LATCHED, numbers, outcome


class TestStarting:
    @pytest.mark.parametrize(
        ("parameters", "complaint"),
        [
            ({"backend": "gpu"}, "parameter 'backend': expected one of usb, virtual, cpu; got 'gpu'"),
            ({"status_period": 0.0}, "status_period"),
            ({"status_period": "fast"}, "status_period"),
            ({"firmware": "/no/such/file"}, "'firmware': expected a file; there is no /no/such/file"),
            ({"backend": "cpu", "models": "[nothing]"}, "no nothing.tflite in"),
        ],
        ids=["choice", "range", "type", "file", "model"],
    )
    def test_a_bad_value_ends_it_with_one_line(
        self, start_node: Any, parameters: dict[str, Any], complaint: str
    ) -> None:
        process = start_node("edgetpu_driver", "edgetpu_node", **parameters)
        assert process.wait() == 1
        assert complaint in process.output.splitlines()[-1]
        assert "Traceback" not in process.output

    @pytest.mark.parametrize(
        ("package", "name"), [("edgetpu_driver", "edgetpu_node"), ("edgetpu_perception", "single_process")]
    )
    def test_a_parameter_file_that_cannot_be_read_ends_it_with_status_2(
        self, start_node: Any, package: str, name: str
    ) -> None:
        process = start_node(package, name, "--params-file", "/no/such.yaml")
        assert process.wait() == 2
        assert "/no/such.yaml" in process.output.splitlines()[-1]
        assert "Traceback" not in process.output

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (("-p", "model_dirs:=\udcff"), r"expected arguments in UTF-8; got 'model_dirs:=\udcff'"),
            (("-r", "__node:=\udcff"), r"expected arguments in UTF-8; got '__node:=\udcff'"),
            (("--nope",), "unknown ROS arguments: ['--nope']"),
        ],
        ids=["parameter that is no text", "name that is no text", "unknown"],
    )
    def test_arguments_that_cannot_be_read_end_it_with_status_2_and_the_reason(
        self, start_node: Any, arguments: tuple[str, ...], complaint: str
    ) -> None:
        process = start_node("edgetpu_driver", "edgetpu_node", *arguments)
        assert process.wait() == 2
        assert process.output.splitlines() == [f"edgetpu_node: {complaint}"]

    def test_empty_lists_stand_for_the_defaults(
        self,
        start_node: Any,
        graph: Any,
        model_dir: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("ROS_HOME", str(tmp_path))
        (tmp_path / "edgetpu").mkdir()
        shutil.copytree(model_dir, tmp_path / "edgetpu" / "models")
        file = tmp_path / "empty.yaml"
        file.write_text("/**:\n  ros__parameters:\n    backend: cpu\n    models: []\n    model_dirs: ['']\n")
        process = start_node(
            "edgetpu_driver", "edgetpu_node", "-r", "__node:=empty", "--params-file", str(file)
        )
        response = graph.call(ListModels, "/empty/list_models")
        assert list(response.models) == []
        assert list(response.available) == [str(tmp_path / "edgetpu" / "models" / "sums.tflite")]
        process.stop(signal.SIGTERM)

    def test_without_a_stick_it_exits_after_the_timeout(self, start_node: Any) -> None:
        process = start_node(
            "edgetpu_driver", "edgetpu_node", backend="usb", serial="none", wait_for_device_timeout=0.0
        )
        assert process.wait() == 1
        assert "no device after 0 s (wait_for_device_timeout): " in process.output.splitlines()[-1]
        assert "Traceback" not in process.output


class TestTwoOfOneName:
    def test_both_warn_until_one_is_gone(self, start_node: Any, graph: Any) -> None:
        arguments = ("edgetpu_driver", "edgetpu_node", "-r", "__ns:=/robot1", "-r", "__node:=twin")
        arrays = graph.collect(DiagnosticArray, "/diagnostics")

        def said(level: bytes, text: str) -> bool:
            return any(
                s.name == "robot1/twin: device" and s.level == level and text in s.message
                for array in arrays
                for s in array.status
            )

        first, second = (start_node(*arguments, backend="cpu") for _ in range(2))
        graph.spin_until(lambda: said(DiagnosticStatus.WARN, "2 drivers are called /robot1/twin"))
        second.stop()
        del arrays[:]
        graph.spin_until(lambda: said(DiagnosticStatus.OK, "ready"))
        first.stop()


class TestWithoutADevice:
    def test_requests_are_answered_at_once(self, start_node: Any, graph: Any, golden: ModelFolder) -> None:
        golden.model("bright_64x64_edgetpu.tflite")
        process = start_node(
            "edgetpu_driver",
            "edgetpu_node",
            "-r",
            "__node:=absent",
            backend="usb",
            serial="none",
            model_dirs=[str(golden.path)],
            models="[bright_64x64]",
        )
        inputs = [Tensor(dtype=Tensor.UINT8, shape=[1, 64, 64, 1], data=bytes(4096))]
        response = graph.call(Invoke, "/absent/invoke", model="bright_64x64", inputs=inputs)
        assert outcome(response)[:2] == (False, ErrorCode.UNAVAILABLE)
        assert response.message.startswith("no device: ")
        process.stop()


class TestLifecycle:
    def test_it_serves_only_while_it_is_active(self, start_node: Any, graph: Any, model_dir: Path) -> None:
        process = start_node(
            "edgetpu_driver",
            "edgetpu_node",
            "-r",
            "__node:=managed",
            backend="cpu",
            autostart="false",
            model_dirs=f"[{model_dir}]",
            models="[sums]",
        )

        def invoke() -> Any:
            response = graph.call(Invoke, "/managed/invoke", model="sums", inputs=[numbers(1, 2, 3, 4)])
            return response.success, response.message

        def change(transition: int) -> bool:
            request = Transition(id=transition)
            return bool(graph.call(ChangeState, "/managed/change_state", transition=request).success)

        assert invoke() == (False, "/managed is unconfigured; expected it to be active")
        assert change(Transition.TRANSITION_CONFIGURE)
        assert invoke() == (False, "/managed is inactive; expected it to be active")
        states = graph.collect(DeviceStatus, "/managed/status", LATCHED)
        graph.spin_until(lambda: bool(states) and states[-1].state == DeviceStatus.INACTIVE)
        assert change(Transition.TRANSITION_ACTIVATE)
        graph.spin_until(lambda: states[-1].state == DeviceStatus.READY)
        assert not change(Transition.TRANSITION_CONFIGURE)  # not valid now; nothing changes
        assert not change(99)
        graph.spin_until(lambda: invoke() == (True, ""))
        assert change(Transition.TRANSITION_DEACTIVATE)
        assert invoke() == (False, "/managed is inactive; expected it to be active")
        assert change(Transition.TRANSITION_CLEANUP)
        assert invoke() == (False, "/managed is unconfigured; expected it to be active")
        process.stop()
