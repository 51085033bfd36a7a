"""A bag that the demo replays: its images, a template cut out of them, and the ground truth."""
