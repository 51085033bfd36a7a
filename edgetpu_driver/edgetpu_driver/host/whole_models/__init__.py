"""Models with parts for the Edge TPU and for the CPU: a request runs step by step on both."""
