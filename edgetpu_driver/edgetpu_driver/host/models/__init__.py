"""Models that a host has loaded: their files and parts, their weights, and their engines on each stick."""
