"""The suite in a browser, and a camera for it, each without ROS and as a node."""
