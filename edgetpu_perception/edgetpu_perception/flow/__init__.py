"""What finds the shift between two images in their features."""
