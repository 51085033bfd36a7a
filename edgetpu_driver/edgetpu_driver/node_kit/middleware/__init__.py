"""Settings of the middleware: QoS, discovery, the profile of Fast DDS."""
