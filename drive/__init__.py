"""A simulated robot, driven by the real graph on the virtual stick: `make drive`."""
