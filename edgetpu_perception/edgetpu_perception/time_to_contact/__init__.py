"""Looming: time to contact with the surfaces that the camera approaches."""
