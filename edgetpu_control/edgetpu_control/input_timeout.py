"""The timeout of inputs: a robot stops when its inputs are too old.

Nodes skip messages that are old on arrival (`nodes/message_age.py`). Controllers stop when nothing new
arrives. Times are in s; that of an input that never arrived is -inf.
"""

from __future__ import annotations


def is_recent(stamp: float, now: float, timeout: float) -> bool:
    """Whether an input is at most `timeout` old; false if it is from the future, as after a clock change."""
    return 0 <= now - stamp <= timeout


def is_old(stamp: float, now: float, timeout: float) -> bool:
    """Whether an input is more than `timeout` old; false if it is from the future."""
    return not now - stamp <= timeout  # true for NaN


def is_far_ahead(stamp: float, now: float, timeout: float) -> bool:
    """Whether a stamp is more than `timeout` ahead of the clock; it would hide all later ones."""
    return stamp - now > timeout
