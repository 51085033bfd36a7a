"""Learning on the robot: classes taught by showing, told apart by one Dense layer over embeddings."""
