"""The control nodes: the ROS interfaces of the controllers."""
