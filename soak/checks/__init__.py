"""Checks of results and answers against the expected ones."""
