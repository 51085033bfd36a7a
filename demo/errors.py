"""Errors of the demo; each message is the single line that the user sees."""

from __future__ import annotations


class DemoError(Exception):
    """Base of the errors that end the demo; the message is one line for the user."""


class UsageError(DemoError):
    """An argument that names something that does not exist."""


class BagError(DemoError):
    """A bag is missing, is malformed or lacks the wanted images."""


class GraphError(DemoError):
    """A process of the ROS graph that did not start, did not get ready or died."""
