"""What a driver holds: loaded models, the state of the device, statistics, and the thread that reconnects."""
