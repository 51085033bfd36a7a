"""The .tflite container: read, build, patch and cut graphs."""
