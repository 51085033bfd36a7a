"""The scenarios: what the robot has to do in each world, and the figures of it."""
