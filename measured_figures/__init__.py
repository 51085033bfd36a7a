"""Measured figures, shared by `make bench` and `make accuracy`: a row, its table line and its JSON file."""
