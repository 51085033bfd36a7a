"""The clients of a driver: a model or a matrix on it, through DDS or in the same process."""
