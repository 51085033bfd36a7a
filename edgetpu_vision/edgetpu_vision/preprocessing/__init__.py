"""Converts images to the input that a model expects, and its coordinates back to the image."""
