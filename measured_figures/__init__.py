"""Figures of `make bench`, `accuracy`, `drive` and `soak`: a row, its line in a table, and a JSON file."""
