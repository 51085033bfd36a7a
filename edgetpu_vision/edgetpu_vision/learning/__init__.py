"""Learning on the robot: classes taught by examples, separated by one Dense layer over embeddings."""
