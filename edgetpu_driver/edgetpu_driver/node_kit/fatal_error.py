"""The error that ends a process of nodes."""


class FatalError(Exception):
    """Ends the process with exit status 1; the message is shown as one line."""
