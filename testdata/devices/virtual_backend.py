"""A virtual stick as the backend of a host."""

from __future__ import annotations

import hashlib

from edgetpu_driver.backends.virtual import VirtualStickBackend
from edgetpu_driver.stick.edge_tpu import EdgeTpu
from edgetpu_driver.usb.firmware_loading import FirmwareImage
from edgetpu_driver.virtual import VirtualEdgeTpu
from edgetpu_driver.virtual.graph_packer import pack

FIRMWARE = FirmwareImage(b"firmware", hashlib.sha256(b"firmware").hexdigest())
"""Firmware for a virtual stick in boot mode, which accepts any firmware."""


def backend_of(stick: VirtualEdgeTpu) -> VirtualStickBackend:
    """A backend that opens this stick, with FIRMWARE as its firmware."""
    return VirtualStickBackend(
        lambda on_phase: EdgeTpu.open(stick, firmware=FIRMWARE, on_phase=on_phase),
        stick.library.register_model,
        pack,
    )
