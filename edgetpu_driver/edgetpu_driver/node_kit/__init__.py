"""The parts of every node: base class, parameters, executor, driver client, messages. Needs ROS 2."""
