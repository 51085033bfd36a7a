"""The driver node. Needs ROS 2."""
