"""The part of the driver that speaks ROS: the driver node and the client other nodes use."""
