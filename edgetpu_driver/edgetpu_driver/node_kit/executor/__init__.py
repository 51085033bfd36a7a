"""The executor: its wait set, guarded callbacks, timers, and the order of requests."""
