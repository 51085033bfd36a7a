"""What finds a template in an image."""
