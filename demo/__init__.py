"""The demo: replays a recorded bag through the live ROS graph and shows what the nodes made of it."""
