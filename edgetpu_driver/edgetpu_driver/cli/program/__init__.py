"""`edgetpu program`: assembles, extracts, runs and single-steps custom programs."""
