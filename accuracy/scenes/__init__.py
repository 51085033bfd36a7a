"""Scenes with known truth."""
