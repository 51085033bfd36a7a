"""Small neural networks: trained here, quantised to 8 bits, run as one graph on the stick."""
