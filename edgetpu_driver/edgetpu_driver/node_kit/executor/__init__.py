"""The executor: what it waits for, guarded callbacks, timers, and the order of requests."""
