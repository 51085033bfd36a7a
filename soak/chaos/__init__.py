"""Faults, restarts and malformed messages during a run."""
