"""The order of the colours in a model's input."""

from __future__ import annotations

from typing import Literal, get_args

from edgetpu_driver.errors import InputError

ChannelOrder = Literal["rgb", "bgr"]
"""The order in which a model takes red, green and blue. Models of Caffe and OpenCV take "bgr"."""
CHANNEL_ORDERS: tuple[ChannelOrder, ...] = get_args(ChannelOrder)


def check_channel_order(order: str) -> ChannelOrder:
    """Return `order` if it is one of CHANNEL_ORDERS; otherwise raise InputError."""
    for known in CHANNEL_ORDERS:
        if order == known:
            return known
    raise InputError(f"expected a channel order of {' or '.join(CHANNEL_ORDERS)}; got '{order}'")
