"""Camera images: decoding, conversion and resizing for models, and the camera's geometry."""
