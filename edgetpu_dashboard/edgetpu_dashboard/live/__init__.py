"""The dashboard's model of the graph, without ROS and without a browser."""
