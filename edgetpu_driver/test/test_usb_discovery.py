"""Selection of a stick on the bus."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from usb.core import USBError

from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu
from edgetpu_driver.errors import (
    DependencyMissingError,
    DeviceBusyError,
    DeviceLostError,
    DeviceNotFoundError,
    TransferError,
)
from edgetpu_driver.usb.discovery import find_sticks
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.bus import VirtualBus
from edgetpu_driver.virtual.graph_packer import pack


def two_sticks() -> VirtualBus:
    return VirtualBus(
        VirtualEdgeTpu(bus=2, ports=(3,), serial="first"),
        VirtualEdgeTpu(bus=1, ports=(4, 2), serial="second", speed="high"),
    )


def test_sticks_are_listed_by_bus_path_with_their_link_speed() -> None:
    found = [(stick.bus_path, stick.link_speed, stick.boot_mode) for stick in find_sticks(two_sticks())]
    assert found == [("1-4.2", 480.0, False), ("2-3", 5000.0, False)]


def test_a_stick_in_boot_mode_is_found_under_its_other_identity() -> None:
    (stick,) = find_sticks(VirtualEdgeTpu(boot_mode=True))
    assert stick.boot_mode


def descriptor_fails_of(
    monkeypatch: pytest.MonkeyPatch, bus: VirtualBus, number: int, error: Exception
) -> None:
    """Have the descriptor of one device of a bus fail, the first being 0."""
    odd = list(bus.enumerate_devices())[number].stick
    usual = bus.get_device_descriptor

    def descriptor(device: Any) -> Any:
        if device.stick is odd:
            raise error
        return usual(device)

    monkeypatch.setattr(bus, "get_device_descriptor", descriptor)


@pytest.mark.parametrize("error", [USBError("gone", errno=errno.ENODEV), ValueError("odd")])
def test_a_device_without_a_readable_descriptor_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bus = two_sticks()
    descriptor_fails_of(monkeypatch, bus, 0, error)
    assert [stick.bus_path for stick in find_sticks(bus)] == ["1-4.2"]


def test_a_stick_that_leaves_while_the_bus_is_listed_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = VirtualBus(VirtualEdgeTpu())
    descriptor_fails_of(monkeypatch, bus, 0, USBError("gone", errno=errno.ENODEV))
    assert find_sticks(bus) == ()


def test_the_reason_is_told_if_no_stick_can_be_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = VirtualBus(VirtualEdgeTpu())
    descriptor_fails_of(monkeypatch, bus, 0, USBError("no", errno=errno.EIO))
    with pytest.raises(TransferError, match="reading the descriptor of a device on the bus: no"):
        find_sticks(bus)


def test_link_speed_follows_from_the_usb_release_if_the_host_does_not_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stick = VirtualEdgeTpu(speed="high")
    (device,) = stick.enumerate_devices()
    descriptor = stick.get_device_descriptor(device)
    descriptor.speed = None
    monkeypatch.setattr(stick, "get_device_descriptor", lambda _: descriptor)
    assert find_sticks(stick)[0].link_speed == 480.0


def test_a_stick_is_selected_by_its_serial_number() -> None:
    with EdgeTpu.open(usb_backend=two_sticks(), serial="first") as tpu:
        assert tpu.info().bus_path == "2-3"


def test_a_stick_is_selected_by_its_bus_path() -> None:
    with EdgeTpu.open(usb_backend=two_sticks(), bus_path="1-4.2") as tpu:
        assert tpu.info().serial == "second"


def test_without_a_wish_the_first_stick_that_is_free_is_taken() -> None:
    bus = two_sticks()
    with EdgeTpu.open(usb_backend=bus) as first, EdgeTpu.open(usb_backend=bus) as second:
        assert (first.info().bus_path, second.info().bus_path) == ("1-4.2", "2-3")
        with pytest.raises(DeviceBusyError, match=r"1-4\.2"):
            EdgeTpu.open(usb_backend=bus)


def test_a_serial_number_that_no_stick_has_is_named() -> None:
    with pytest.raises(DeviceNotFoundError, match="no Edge TPU with the serial number third is on the bus"):
        EdgeTpu.open(usb_backend=two_sticks(), serial="third")


def test_an_empty_bus_is_reported() -> None:
    stick = VirtualEdgeTpu()
    stick.unplug()
    with pytest.raises(DeviceNotFoundError, match="no Edge TPU is on the bus"):
        EdgeTpu.open(usb_backend=stick)


def test_a_missing_libusb_is_reported_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("usb.backend.libusb1.get_backend", lambda: None)
    with pytest.raises(DependencyMissingError, match=r"apt install libusb-1\.0-0"):
        EdgeTpu.open()


def test_two_sticks_are_distinguished_by_their_ports_after_both_returned(
    make_dense: Callable[[int], bytes],
) -> None:
    sticks = [VirtualEdgeTpu(bus=2, ports=(port,)) for port in (1, 2)]
    graphs = [make_dense(seed) for seed in (1, 2)]
    models = [CompiledModel.parse(pack(graph, name="dense")) for graph in graphs]
    for stick, model, graph in zip(sticks, models, graphs, strict=True):
        stick.register_model(model, graph)
    bus, x = VirtualBus(*sticks), np.zeros((1, 16), np.uint8)
    with EdgeTpu.open(usb_backend=bus) as first, EdgeTpu.open(usb_backend=bus) as second:
        for stick in sticks:
            stick.unplug()
        for stick in reversed(sticks):
            stick.plug()
        for tpu, model, graph in zip((first, second), models, graphs, strict=True):
            np.testing.assert_array_equal(tpu.run(model, {"x": x})["y"], CpuEngine(graph).run({"x": x})["y"])
        assert (first.info().bus_path, second.info().bus_path) == ("2-1", "2-2")


def test_a_different_stick_in_the_same_port_is_not_used() -> None:
    bus = two_sticks()
    with EdgeTpu.open(usb_backend=bus, serial="first") as tpu:
        bus.swap(0, VirtualEdgeTpu(bus=2, ports=(3,), serial="third"))
        with pytest.raises(DeviceLostError, match="the stick at 2-3 is not the one with the serial number"):
            tpu.info()
