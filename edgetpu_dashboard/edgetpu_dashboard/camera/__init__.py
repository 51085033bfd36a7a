"""Pictures from a webcam, from files, from patterns and from a rendered scene."""
