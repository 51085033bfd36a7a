"""Running nodes, and the messages that tests exchange with them."""
