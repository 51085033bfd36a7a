"""What the dashboard knows of the graph, free of ROS and of the browser."""
