"""Optical flow: mean motion of the image content from one frame to the next."""
