"""The suite in a browser, and a camera for it: free of ROS, and a node for each."""
