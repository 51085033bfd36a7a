"""`edgetpu doctor`: each problem is found, named, and shown with its remedy."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from usb.core import USBError

from edgetpu_driver.cli.doctor import command, computer, sticks
from edgetpu_driver.cli.doctor.finding import Finding, State, missing
from edgetpu_driver.cli.doctor.models import models
from edgetpu_driver.cli.main import main
from edgetpu_driver.errors import DependencyMissingError
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph, edgetpu_compiler
from edgetpu_driver.virtual import VirtualEdgeTpu
from testdata import ModelFolder

Doctor = Callable[..., dict[str, Finding]]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home of the suite."""
    monkeypatch.setenv("ROS_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """What the command finds, by subject, with a pyusb backend in place of the system's."""

    def run(stick: Any) -> dict[str, Finding]:
        monkeypatch.setattr("edgetpu_driver.usb.libusb.default_backend", lambda: stick)
        code = main(["doctor", "--json"])
        answer = json.loads(capsys.readouterr().out)
        assert (code == 0) is answer["fine"]
        return {
            each["subject"]: Finding(each["subject"], State(each["state"]), each["found"], each["remedy"])
            for each in answer["findings"]
        }

    return run


def refusing(code: int) -> VirtualEdgeTpu:
    """A stick that the system refuses to open."""

    class Refusing(VirtualEdgeTpu):
        def open_device(self, dev: Any) -> Any:  # noqa: ARG002
            raise USBError("refused", errno=code)

    return Refusing()


def node_of(stick: VirtualEdgeTpu, root: Path) -> Path:
    """The device file of a stick below `root`."""
    descriptor = stick.get_device_descriptor(next(stick.enumerate_devices()))
    return root / f"{descriptor.bus:03}" / f"{descriptor.address:03}"


def test_the_virtual_stick_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    assert main(["doctor", "--backend", "virtual"]) == 0
    text = capsys.readouterr().out
    assert text.endswith("everything for --backend virtual is in place\n")
    assert "18d1:9302 at 2-1, runs its firmware 1.00" in text
    assert "udev" not in text


def test_without_a_stick_it_says_to_plug_one_in(doctor: Doctor) -> None:
    stick = VirtualEdgeTpu()
    stick.unplug()
    found = doctor(stick)["stick"]
    assert (found.state, found.found) == (State.MISSING, "no Edge TPU is on the bus")
    assert "plug one in" in found.remedy


def test_without_libusb_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise DependencyMissingError("no libusb")

    monkeypatch.setattr("edgetpu_driver.usb.libusb.default_backend", absent)
    assert computer.libusb().error_text == (
        "pyusb finds no libusb 1.0 (it would say: No backend available): sudo apt install libusb-1.0-0"
    )


def test_a_stick_in_boot_mode_shows_its_first_identity(doctor: Doctor) -> None:
    found = doctor(VirtualEdgeTpu(boot_mode=True))
    assert found["stick"].found.startswith("1a6e:089a at 2-1, in boot mode: it becomes 18d1:9302")
    assert found["firmware"].state is State.MISSING


def test_a_stick_that_runs_needs_its_firmware_only_later(doctor: Doctor) -> None:
    assert doctor(VirtualEdgeTpu())["firmware"].state is State.NOTE


def test_who_may_open_the_stick_needs_no_rule(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("edgetpu_driver.cli.doctor.stick_requirements.RULE_DIRECTORIES", (tmp_path,))
    assert doctor(VirtualEdgeTpu())["udev rule"].state is State.NOTE
    assert doctor(refusing(errno.EACCES))["udev rule"].state is State.MISSING


@pytest.mark.parametrize(
    ("code", "told", "remedy"),
    [
        (errno.EACCES, "the system denies access to the stick", "unplug the stick and plug it in again"),
        (errno.EBUSY, "the stick is in use", "stop the process, which sudo fuser -v"),
        (errno.EIO, "opening the stick at 2-1: refused", "unplug the stick and plug it in again"),
    ],
)
def test_a_stick_that_cannot_be_opened_is_missing(doctor: Doctor, code: int, told: str, remedy: str) -> None:
    found = doctor(refusing(code))["access"]
    assert (found.state, found.found) == (State.MISSING, told)
    assert remedy in found.remedy


def test_the_process_that_has_the_stick_is_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "42" / "fd").mkdir(parents=True)
    (tmp_path / "42" / "comm").write_text("frigate\n")
    stick = refusing(errno.EBUSY)
    os.symlink(node_of(stick, sticks.DEVICE_NODES), tmp_path / "42" / "fd" / "7")
    monkeypatch.setattr(sticks, "PROCESSES", tmp_path)
    assert doctor(stick)["access"].found == "the stick is in use by frigate (42)"


def test_a_usb_2_port_is_noted(doctor: Doctor) -> None:
    assert doctor(VirtualEdgeTpu())["link"].found == "5000 Mbit/s (USB 3)"
    found = doctor(VirtualEdgeTpu(speed="high"))["link"]
    assert (found.state, found.found[:18]) == (State.NOTE, "480 Mbit/s (USB 2)")
    assert "USB 3 port" in found.remedy


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
    """A function that writes a file of what the kernel tells of USB: "2-1/bmAttributes", "e0"."""
    root = tmp_path / "sys"
    monkeypatch.setattr(sticks, "SYSFS", root)

    def tell(name: str, content: str) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")

    return tell


def test_a_port_of_the_computer_is_right(doctor: Doctor, kernel: Callable[[str, str], None]) -> None:
    kernel("2-1/bMaxPower", "896mA")
    assert doctor(VirtualEdgeTpu())["power"].found == (
        "the stick may draw 896mA, directly from a port of the computer"
    )


@pytest.mark.parametrize(("attributes", "state"), [("a0", State.NOTE), ("e0", State.FINE)])
def test_a_hub_without_a_supply_is_noted(
    doctor: Doctor, kernel: Callable[[str, str], None], attributes: str, state: State
) -> None:
    kernel("2-1/bmAttributes", attributes)
    kernel("2-1/product", "USB3 Hub")
    kernel("2-1.4/bMaxPower", "896mA")
    found = doctor(VirtualEdgeTpu(ports=(1, 4)))["power"]
    assert found.state is state
    assert "through 2-1 (USB3 Hub)" in found.found


def test_a_weak_supply_of_a_raspberry_pi_is_missing(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hwmon1").mkdir()
    (tmp_path / "hwmon1" / "name").write_text("rpi_volt\n")
    (tmp_path / "hwmon1" / "in0_lcrit_alarm").write_text("1\n")
    monkeypatch.setattr(sticks, "VOLTAGE_MONITORS", tmp_path)
    assert doctor(VirtualEdgeTpu())["supply"].found == "the Raspberry Pi reports undervoltage"


def test_a_driver_of_the_kernel_is_named(
    doctor: Doctor, kernel: Callable[[str, str], None], tmp_path: Path
) -> None:
    kernel("2-1:1.0/bInterfaceClass", "ff")
    (tmp_path / "apex").mkdir()
    os.symlink(tmp_path / "apex", sticks.SYSFS / "2-1:1.0" / "driver")
    assert doctor(VirtualEdgeTpu())["kernel driver"].found.startswith("apex has the stick")


def test_a_device_file_that_udev_has_not_touched_is_missing(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stick = VirtualEdgeTpu()
    node = node_of(stick, tmp_path)
    node.parent.mkdir()
    monkeypatch.setattr(sticks, "DEVICE_NODES", tmp_path)
    assert doctor(stick)["device file"].found == f"{node} is not there"
    node.touch()
    assert doctor(stick)["device file"].state is State.FINE
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "the udev rule has not been applied" in doctor(stick)["device file"].found


def test_a_bus_that_is_not_passed_through_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sticks, "DEVICE_NODES", tmp_path / "none")
    assert sticks.bus().remedy == computer.PASS_USB_THROUGH


@pytest.mark.parametrize(
    ("version", "processor", "marks", "told"),
    [
        ("Linux version 6.6 (Microsoft@Microsoft.com)", "", False, "Windows Subsystem for Linux"),
        ("Linux version 6.8", "", True, "a container"),
        ("Linux version 6.8", "flags : fpu hypervisor", False, "a virtual machine"),
        ("Linux version 6.8", "flags : fpu", False, "no container or virtual machine was detected"),
    ],
)
def test_what_usb_passes_through_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, processor: str, marks: bool, told: str
) -> None:
    for name, content in (("VERSION_FILE", version), ("PROCESSOR_FILE", processor)):
        (tmp_path / name).write_text(content)
        monkeypatch.setattr(computer, name, tmp_path / name)
    monkeypatch.setattr(computer, "CONTAINER_MARKS", (tmp_path,) if marks else ())
    found = computer.virtualisation()
    assert found.found.startswith(told)
    assert (found.state is State.FINE) is told.startswith("no ")
    assert ("(1a6e:089a, then 18d1:9302)" in found.error_text) is (found.state is State.NOTE)


def test_a_32_bit_computer_has_no_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "armv7l")
    assert "LiteRT has no packages for 32 bits" in computer.computer().found


def test_an_old_python_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 9, 2))
    assert computer.python().state is State.MISSING


@pytest.mark.parametrize(("needed", "state"), [(True, State.MISSING), (False, State.NOTE)])
def test_litert_is_needed_where_it_computes(
    monkeypatch: pytest.MonkeyPatch, needed: bool, state: State
) -> None:
    monkeypatch.setattr(computer, "installed_version", lambda _: "")
    assert computer.litert(needed).state is state


def test_ros_that_is_installed_has_to_be_sourced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(computer, "_is_importable", lambda name: name != "rclpy")
    monkeypatch.setattr(computer, "ROS_INSTALLATIONS", tmp_path)
    assert computer.ros().found.startswith("not installed")
    (tmp_path / "jazzy").mkdir()
    (tmp_path / "jazzy" / "setup.bash").touch()
    assert computer.ros().remedy == f"source {tmp_path}/jazzy/setup.bash"


def test_a_workspace_has_to_be_sourced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computer, "_is_importable", lambda name: name != "edgetpu_msgs")
    assert computer.ros().remedy == "source install/setup.bash"


def test_the_library_of_the_vendor_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computer, "find_library", lambda _: "libedgetpu.so.1")
    (found,) = computer.other_drivers()
    assert "Failed to load delegate" in found.found


def test_each_model_is_listed_with_its_use(home: Path) -> None:
    (home / "dense_256.tflite").write_bytes(dense_graph.build(256))
    (home / "broken_edgetpu.tflite").write_bytes(b"404: Not Found")
    broken, dense = models(home, "usb")
    assert (broken.subject, broken.state) == ("model broken", State.NOTE)
    assert broken.remedy == f"rm {home}/broken_edgetpu.tflite"
    assert dense.found == "matrix engine: its weights can be replaced at run time; runs on usb, virtual, cpu"


@pytest.mark.parametrize("kind", ["directory", "pipe", "link"])
def test_what_is_no_file_is_a_note_as_well(home: Path, kind: str) -> None:
    path = home / "folder.tflite"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    (found,) = models(home, "usb")
    assert (found.subject, found.state) == ("model folder", State.NOTE)
    assert "expected a file" in found.found


def test_a_command_names_files_as_a_shell_takes_them(home: Path) -> None:
    (home / "my model.tflite").write_bytes(b"404: Not Found")
    (found,) = models(home, "usb")
    assert found.remedy == f"rm '{home}/my model.tflite'"


@pytest.mark.parametrize(
    ("compiler", "elsewhere"), [("/usr/bin/edgetpu_compiler", ""), (None, " --on USER@COMPUTER")]
)
def test_a_graph_without_a_compiled_model_wants_to_be_compiled(
    home: Path, monkeypatch: pytest.MonkeyPatch, compiler: str | None, elsewhere: str
) -> None:
    monkeypatch.setattr(edgetpu_compiler, "find_compiler", lambda: compiler)
    graph = GraphBuilder("copy")
    x = graph.input("x", (1, 2), np.uint8, scale=0.5, zero_point=128)
    graph.output(graph.quantize(x, np.int8, scale=0.5, zero_point=0, name="y"))
    (home / "copy.tflite").write_bytes(graph.build())
    (found,) = models(home, "usb")
    assert (found.state, found.remedy) == (
        State.NOTE,
        f"edgetpu models compile {home}/copy.tflite{elsewhere}",
    )


@pytest.mark.parametrize("backend", ["virtual", "cpu"])
def test_a_compiled_model_without_its_graph_wants_the_graph(
    home: Path, golden: ModelFolder, backend: str
) -> None:
    shutil.copy(golden.model("looming_64x64_3x3_edgetpu.tflite"), home)
    (found,) = models(home, backend)
    assert (found.state, found.remedy) == (State.NOTE, f"cp looming_64x64_3x3.tflite {home}")


def test_a_look_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch, doctor: Doctor) -> None:
    def fail() -> Finding:
        raise PermissionError("nothing may be read")

    monkeypatch.setattr(computer, "python", fail)
    assert doctor(VirtualEdgeTpu())["Python"] == missing(
        "Python", "nothing may be read", "see the lines above"
    )


def test_a_note_is_nothing_that_is_missing(monkeypatch: pytest.MonkeyPatch, doctor: Doctor) -> None:
    monkeypatch.setattr(command, "_checks", lambda _: {"x": lambda: Finding("x", State.NOTE, "y")})
    assert doctor(VirtualEdgeTpu())["x"].state is State.NOTE
