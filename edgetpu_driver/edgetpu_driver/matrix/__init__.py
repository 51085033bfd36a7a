"""A real matrix on Dense models: scaled, padded, cut into tiles and multiplied."""
