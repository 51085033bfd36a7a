"""Runs the threads of the driver's host in orders drawn from a seed, and checks every answer."""
