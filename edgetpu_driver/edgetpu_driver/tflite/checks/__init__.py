"""Checks of untrusted .tflite files before LiteRT reads them."""
