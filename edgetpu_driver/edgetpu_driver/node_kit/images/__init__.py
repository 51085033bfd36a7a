"""Images in a node: subscribing, decoding, keeping up with the camera, debug images."""
