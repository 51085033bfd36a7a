"""Camera images: encodings, resizing, camera geometry and debug drawings."""
