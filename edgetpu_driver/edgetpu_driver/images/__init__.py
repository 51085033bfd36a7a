"""Camera images: decoding, conversion and resizing for models, and drawing onto them. No ROS."""
