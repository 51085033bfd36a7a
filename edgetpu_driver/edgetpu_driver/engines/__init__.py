"""Engines run one model each, on the CPU or on a stick: named arrays in, named arrays out."""
