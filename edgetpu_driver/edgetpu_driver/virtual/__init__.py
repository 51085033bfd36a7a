"""A virtual Edge TPU: a pyusb backend that behaves like the silicon. Production code never imports it."""

from edgetpu_driver.virtual.pyusb_backend import VirtualEdgeTpu

__all__ = ["VirtualEdgeTpu"]
