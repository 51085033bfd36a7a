"""Checks of results and answers against what they have to be."""
