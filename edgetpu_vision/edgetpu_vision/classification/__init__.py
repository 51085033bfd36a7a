"""Classification: the most probable classes of an image."""
