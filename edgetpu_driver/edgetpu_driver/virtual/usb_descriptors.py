"""The USB descriptors of an Edge TPU under its two identities, in the form a pyusb backend returns them."""

from __future__ import annotations

import struct
from types import SimpleNamespace

from edgetpu_driver.usb.discovery import APPLICATION_ID, BOOT_ID

SERIAL_INDEX = 3
"""Index of the string descriptor; any number but 0 would do."""
DFU_BLOCK_SIZE = 256
"""Bytes, wTransferSize of the DFU functional descriptor: the driver's default."""

_HIGH_SPEED, _SUPER_SPEED = 3, 4  # as libusb numbers them
_BULK, _INTERRUPT = 2, 3
"""Transfer types in bmAttributes of an endpoint descriptor."""
_APPLICATION_ENDPOINTS = ((0x01, _BULK), (0x81, _BULK), (0x82, _BULK), (0x83, _INTERRUPT))
_DFU_ATTRIBUTES = 0x07  # can download, can upload, tolerates manifestation
_DFU_FUNCTIONAL = struct.pack("<BBBHHH", 9, 0x21, _DFU_ATTRIBUTES, 0, DFU_BLOCK_SIZE, 0x0110)


def max_packet(super_speed: bool) -> int:
    """Maximum bulk packet size, bytes."""
    return 1024 if super_speed else 512


def device_descriptor(
    boot_mode: bool, super_speed: bool, bus: int, ports: tuple[int, ...], address: int, has_serial: bool
) -> SimpleNamespace:
    """The device descriptor with the bus position, as pyusb's libusb backend adds it."""
    vendor, product = BOOT_ID if boot_mode else APPLICATION_ID
    return SimpleNamespace(
        bLength=18,
        bDescriptorType=1,
        bcdUSB=0x0310 if super_speed else 0x0210,
        bDeviceClass=0,
        bDeviceSubClass=0,
        bDeviceProtocol=0,
        bMaxPacketSize0=9 if super_speed else 64,
        idVendor=vendor,
        idProduct=product,
        bcdDevice=0x0100,
        iManufacturer=0,
        iProduct=0,
        iSerialNumber=SERIAL_INDEX if has_serial else 0,
        bNumConfigurations=1,
        bus=bus,
        address=address,
        port_number=ports[-1],
        port_numbers=ports,
        speed=_SUPER_SPEED if super_speed else _HIGH_SPEED,
    )


def configuration_descriptor() -> SimpleNamespace:
    """The only configuration."""
    return SimpleNamespace(
        bLength=9,
        bDescriptorType=2,
        wTotalLength=0,
        bNumInterfaces=1,
        bConfigurationValue=1,
        iConfiguration=0,
        bmAttributes=0x80,
        bMaxPower=249,
        extra_descriptors=[],
    )


def interface_descriptor(boot_mode: bool) -> SimpleNamespace:
    """The only interface: DFU in boot mode, the vendor's own otherwise."""
    kind = (0xFE, 1, 2) if boot_mode else (0xFF, 0xFF, 0xFF)
    return SimpleNamespace(
        bLength=9,
        bDescriptorType=4,
        bInterfaceNumber=0,
        bAlternateSetting=0,
        bNumEndpoints=0 if boot_mode else len(_APPLICATION_ENDPOINTS),
        bInterfaceClass=kind[0],
        bInterfaceSubClass=kind[1],
        bInterfaceProtocol=kind[2],
        iInterface=0,
        extra_descriptors=list(_DFU_FUNCTIONAL) if boot_mode else [],
    )


def endpoint_descriptor(index: int, super_speed: bool) -> SimpleNamespace:
    """One of the endpoints of the running stick; IndexError beyond the last."""
    address, kind = _APPLICATION_ENDPOINTS[index]
    return SimpleNamespace(
        bLength=7,
        bDescriptorType=5,
        bEndpointAddress=address,
        bmAttributes=kind,
        wMaxPacketSize=max_packet(super_speed),
        bInterval=0 if kind == _BULK else 6,
        bRefresh=0,
        bSynchAddress=0,
        extra_descriptors=[],
    )


def string_descriptor(index: int, serial: str) -> bytes | None:
    """String descriptor 0 lists the languages; the only text is the serial number."""
    if index == 0:
        return struct.pack("<BBH", 4, 3, 0x0409)
    if index != SERIAL_INDEX or not serial:
        return None
    text = serial.encode("utf-16-le")
    return bytes((2 + len(text), 3)) + text
