"""Operators of ours, which LiteRT does not know."""
