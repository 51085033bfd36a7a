"""One Edge TPU on USB: opened, loaded, run, recovered after faults, closed."""
