"""Optical flow: motion of most of the image from one frame to the next."""
