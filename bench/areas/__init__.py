"""The areas of the benchmarks: each module has a function `rows()` that measures and yields its rows."""
