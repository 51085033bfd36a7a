"""One inference for several clients that ask about the same image."""
