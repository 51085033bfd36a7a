"""A long run of the whole graph under faults, restarts and malformed messages; every result is checked."""
