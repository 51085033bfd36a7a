"""The spot tracker: where the brightest spot of an image is, or the strongest one of a colour."""
