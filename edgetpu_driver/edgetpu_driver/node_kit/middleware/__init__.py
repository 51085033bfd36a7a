"""Settings of the middleware: QoS, discovery, the profile of Fast DDS, and its shared memory."""
