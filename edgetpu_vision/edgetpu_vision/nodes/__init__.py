"""One thin ROS node for each kind of vision model."""
