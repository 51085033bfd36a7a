"""Conversions between messages and arrays, weights, errors and times."""
