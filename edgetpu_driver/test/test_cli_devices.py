"""`edgetpu devices` with a stick that is absent, busy, without access, in boot mode or ready."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from usb.core import USBError

from edgetpu_driver.cli.main import main
from edgetpu_driver.virtual import VirtualEdgeTpu

Plug = Callable[[Any], None]


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Plug:
    """A function that installs a pyusb backend as the system default."""

    def make(backend: Any) -> None:
        monkeypatch.setattr("edgetpu_driver.usb.libusb.default_backend", lambda: backend)
        monkeypatch.setattr("edgetpu_driver.stick.edge_tpu.default_backend", lambda: backend)

    return make


def refusing(code: int) -> VirtualEdgeTpu:
    """A stick that the system refuses to open."""

    class Refusing(VirtualEdgeTpu):
        def open_device(self, dev: Any) -> Any:  # noqa: ARG002
            raise USBError("refused", errno=code)

    return Refusing()


def listed(capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]], str]:
    code = main(["devices", "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def test_a_stick_that_runs_is_ready(plug: Plug, capsys: pytest.CaptureFixture[str]) -> None:
    plug(VirtualEdgeTpu(serial="1234"))
    code, (device,), _ = listed(capsys)
    assert code == 0
    assert device == {
        "bus_path": "2-1", "state": "ready", "serial": "1234", "link_speed": 5000.0, "firmware": "1.00",
        "remedy": "",
    }  # fmt: skip


def test_without_a_stick_it_says_to_plug_one_in(plug: Plug, capsys: pytest.CaptureFixture[str]) -> None:
    stick = VirtualEdgeTpu()
    stick.unplug()
    plug(stick)
    code, devices, errors = listed(capsys)
    assert (code, devices) == (3, [])
    assert "no Edge TPU is on the bus: plug one in" in errors


def test_without_a_stick_missing_requirements_are_listed(
    plug: Plug, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    monkeypatch.setattr("edgetpu_driver.cli.doctor.stick_requirements.RULE_DIRECTORIES", (tmp_path,))
    stick = VirtualEdgeTpu()
    stick.unplug()
    plug(stick)
    _, _, errors = listed(capsys)
    assert f"there is no firmware at {tmp_path}/edgetpu/apex_latest_single_ep.bin: mkdir -p" in errors
    assert "no udev rule gives access to the stick: sudo cp" in errors


def test_without_a_stick_complete_requirements_are_confirmed(
    plug: Plug, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetpu_driver.cli.devices.missing_requirements", list)
    stick = VirtualEdgeTpu()
    stick.unplug()
    plug(stick)
    _, _, errors = listed(capsys)
    assert errors.endswith("edgetpu: udev rule, group and firmware for a stick are in place\n")


def test_a_stick_in_boot_mode_wants_its_firmware(
    plug: Plug, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    plug(VirtualEdgeTpu(boot_mode=True))
    code, (device,), _ = listed(capsys)
    assert (code, device["state"]) == (0, "boot mode")
    assert "apex_latest_single_ep.bin" in device["remedy"]


@pytest.mark.parametrize(
    ("code", "state", "remedy"),
    [(errno.EACCES, "no access", "install the udev rule"), (errno.EBUSY, "busy", "another process")],
)
def test_a_stick_that_cannot_be_opened_has_a_remedy(
    plug: Plug, capsys: pytest.CaptureFixture[str], code: int, state: str, remedy: str
) -> None:
    plug(refusing(code))
    exit_code, (device,), _ = listed(capsys)
    assert (exit_code, device["state"]) == (3, state)
    assert remedy in device["remedy"]


def test_listing_leaves_the_stick_to_others(plug: Plug, capsys: pytest.CaptureFixture[str]) -> None:
    plug(VirtualEdgeTpu())
    assert main(["devices"]) == main(["devices"]) == 0
    assert "ready" in capsys.readouterr().out


def test_commands_that_need_a_stick_end_with_the_exit_code_for_it(
    plug: Plug, capsys: pytest.CaptureFixture[str]
) -> None:
    plug(refusing(errno.EACCES))
    assert main(["registers"]) == 3
    error = capsys.readouterr().err
    assert error.startswith("edgetpu: opening the stick at 2-1")
    assert error.count("\n") == 1


def test_registers_are_read_from_the_stick_at_a_port(plug: Plug, capsys: pytest.CaptureFixture[str]) -> None:
    plug(VirtualEdgeTpu())
    assert main(["registers", "--port", "2-1", "--json"]) == 0
    values = {each["name"]: each["value"] for each in json.loads(capsys.readouterr().out)}
    assert values["hib_error_status"] == 0
    assert main(["registers", "--port", "7-7"]) == 3


def test_the_virtual_stick_is_at_the_port_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registers", "--backend", "virtual", "--port", "2-1"]) == 0
    assert main(["registers", "--backend", "virtual", "--port", "7-7"]) == 0
    assert main(["registers", "--backend", "virtual", "--port", "7:7"]) != 0
    assert "expected a bus path such as 2-1.4; got '7:7'" in capsys.readouterr().err


def test_a_real_stick_tests_its_computation_only_with_a_model(
    plug: Plug, capsys: pytest.CaptureFixture[str]
) -> None:
    plug(VirtualEdgeTpu())
    assert main(["selftest", "--json"]) == 0
    checks = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["registers"]["outcome"] == "passed"
    assert checks["results"]["outcome"] == "skipped"
    assert "--model x_edgetpu.tflite" in checks["results"]["detail"]


@pytest.mark.parametrize(
    "arguments",
    [("registers",), ("confirm", "--only", "registers", "--report", "r")],
    ids=lambda each: each[0],
)
def test_a_stick_is_used_whether_the_home_of_the_suite_can_be_read_or_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """As with the HOME of another user, which denies access."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROS_HOME", str(tmp_path / ("n" * 300)))  # an error for root too
    assert main([*arguments, "--backend", "virtual"]) == 0
