"""The spot tracker: position of the brightest spot of an image, or of the strongest spot of a colour."""
