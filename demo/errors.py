"""What can go wrong in the demo; each message is the one line its user sees."""

from __future__ import annotations


class DemoError(Exception):
    """Base of everything the demo gives up for; the message is one line for the user."""


class UsageError(DemoError):
    """An argument that names something that does not exist."""


class BagError(DemoError):
    """A bag that is missing, malformed or without the wanted images."""


class GraphError(DemoError):
    """A process of the ROS graph that did not start, did not get ready or died."""
