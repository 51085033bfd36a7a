"""The areas of the measurements: each module has a function `measure()` that returns its rows."""
