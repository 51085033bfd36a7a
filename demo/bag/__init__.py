"""A bag that the demo replays: its images, a template out of them, and what is true of them."""
