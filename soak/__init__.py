"""A long run of the whole graph under faults, restarts and malformed messages, with all results checked."""
