"""The nodes of this package: the camera and the dashboard."""
