"""The nodes of this package: the ROS interface of the camera."""
