"""One thin ROS node for each algorithm."""
