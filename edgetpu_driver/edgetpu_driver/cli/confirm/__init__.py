"""`edgetpu confirm`: executable checks of everything that only silicon can confirm."""
