"""From an image to the input that a model asks for, and from its coordinates back to the image."""
