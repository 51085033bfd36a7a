"""Pictures of results for people: marks and text drawn onto the camera image."""
