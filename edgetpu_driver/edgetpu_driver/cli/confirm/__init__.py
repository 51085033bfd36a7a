"""`edgetpu confirm`: everything that only silicon can confirm, as checks that run."""
