"""Segmentation: a label for every pixel."""
