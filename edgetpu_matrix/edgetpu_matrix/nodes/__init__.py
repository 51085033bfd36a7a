"""The nodes of this package: thin shells of ROS around the algorithms."""
