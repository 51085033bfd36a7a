"""The demo: replays images through the live ROS graph and reports the results of the nodes."""
