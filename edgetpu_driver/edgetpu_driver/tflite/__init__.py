"""The .tflite container: read it, build it."""
