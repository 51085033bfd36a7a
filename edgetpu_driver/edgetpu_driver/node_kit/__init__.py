"""What every node of the suite is made of: parameters, executor, driver client, messages. Needs ROS 2."""
