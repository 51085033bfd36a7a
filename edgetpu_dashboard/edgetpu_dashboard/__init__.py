"""The suite in a browser, and a camera, each as a library without ROS and as a node."""
