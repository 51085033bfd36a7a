"""Engines: named arrays in, named arrays out, on the CPU or on a stick."""
