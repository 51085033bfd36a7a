"""The scenarios: the robot's task in each world, and the figures that are measured."""
