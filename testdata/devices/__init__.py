"""Fake and virtual devices, and hosts on them."""
