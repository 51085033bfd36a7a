"""A driver's models and sticks: loading, running, the state of devices, reconnection, statistics."""
