"""Generates programs for the chip, operation by operation."""
