"""Fills a tensor message."""

from edgetpu_msgs.msg import Tensor
from edgetpu_msgs.srv import Invoke

REQUEST = Invoke.Request(inputs=[Tensor(dtype=Tensor.UINT8, shape=[1, 4], data=bytes([1, 2, 3, 4]))])
