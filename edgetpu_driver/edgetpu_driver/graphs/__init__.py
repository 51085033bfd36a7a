"""The suite's own graphs by name: what families there are, and those of this package."""
