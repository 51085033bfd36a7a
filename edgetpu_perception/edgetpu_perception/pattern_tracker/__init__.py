"""The pattern tracker: finds a patch of an image in other images."""
