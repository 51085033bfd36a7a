"""What turns features into rotations, and rotations into a heading."""
