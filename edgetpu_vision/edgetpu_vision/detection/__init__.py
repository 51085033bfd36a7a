"""Detection: boxes, classes and scores from the outputs of SSD and YOLO models."""
