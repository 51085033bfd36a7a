"""Running nodes, and what tests send them and get from them."""
