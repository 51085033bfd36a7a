"""Graphs made for tests."""
