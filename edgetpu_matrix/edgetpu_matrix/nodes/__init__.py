"""The matrix nodes: the ROS interfaces of the algorithms."""
