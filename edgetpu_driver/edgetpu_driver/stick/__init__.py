"""One Edge TPU on USB: opening it, loading and running models, recovering from faults."""
