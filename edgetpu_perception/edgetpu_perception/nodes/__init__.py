"""The perception nodes: thin shells of ROS around the algorithms."""
