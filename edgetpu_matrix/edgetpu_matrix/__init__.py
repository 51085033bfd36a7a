"""What runs on an Edge TPU as a matrix engine: echo-state networks, place recognition, spectra."""
