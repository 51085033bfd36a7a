"""The visual compass: heading of a camera from its images alone."""
