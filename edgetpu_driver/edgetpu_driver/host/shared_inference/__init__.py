"""One inference for several clients that send the same image."""
