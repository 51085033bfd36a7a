"""The perception nodes: the ROS interfaces of the algorithms."""
