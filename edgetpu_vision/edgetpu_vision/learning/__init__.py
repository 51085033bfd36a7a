"""Learning on the robot: classes taught by showing, separated by one Dense layer over embeddings."""
