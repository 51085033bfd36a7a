"""A virtual Edge TPU: a pyusb backend that behaves like the silicon. Production code never imports it."""
