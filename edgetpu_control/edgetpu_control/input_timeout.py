"""The timeout of inputs: a robot stops when what it is steered by is too old.

Nodes skip messages that are old on arrival (`nodes/message_age.py`). Controllers stop when nothing new has
come. Times are in s; -inf is that of an input that never came.
"""

from __future__ import annotations


def is_recent(stamp: float, now: float, timeout: float) -> bool:
    """Whether an input is at most `timeout` old; one of the future, after the clock was set, is not."""
    return 0 <= now - stamp <= timeout


def is_old(stamp: float, now: float, timeout: float) -> bool:
    """Whether an input is more than `timeout` old; one of the future is not."""
    return not now - stamp <= timeout  # true for NaN


def is_far_ahead(stamp: float, now: float, timeout: float) -> bool:
    """Whether a stamp is more than `timeout` ahead of the clock; it would hide all later ones."""
    return stamp - now > timeout
