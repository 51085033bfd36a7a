"""Requests to a host: their terms, which of them may wait, their order, and their answers."""
