"""Models by name on one device: loading, running, the state of the device, reconnecting, statistics."""
