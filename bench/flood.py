"""A client that keeps a driver busy until SIGINT: `python -m bench.flood DRIVER KIND`."""

from __future__ import annotations

import os
import signal
import sys
from array import array
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from edgetpu_driver.node_kit.deferred_service import QOS_SERVICE
from edgetpu_driver.node_kit.executor import make_executor
from edgetpu_msgs.msg import ModelInfo, Tensor
from edgetpu_msgs.srv import Invoke, LoadModel, MatMul, SetWeights

MODEL = "dense_256"
_SIDE = 256

_BATCH, _PASSES = 20_000, 64
_MATRIX = 2048


def _invoke(info: ModelInfo) -> Any:
    spec = info.inputs[0]
    tensor = Tensor(name=spec.name, dtype=spec.dtype, shape=spec.shape, data=array("B", bytes(_SIDE)))
    return Invoke.Request(model="flood", inputs=[tensor], client="flood")


def _multiply(_info: ModelInfo) -> Any:
    request = MatMul.Request(model="flood", batch=_BATCH, passes=_PASSES, client="flood")
    request.inputs = array("f", bytes(4 * _BATCH * _SIDE))
    return request


def _swap(_info: ModelInfo) -> Any:
    request = SetWeights.Request(model="flood", shape=[_MATRIX, _MATRIX], client="flood")
    request.weights = array("f", bytes(4 * _MATRIX**2))
    return request


KINDS: dict[str, tuple[Any, str, Callable[[ModelInfo], Any], int]] = {
    "50 in flight": (Invoke, "invoke", _invoke, 50),
    "a product of 20,000 vectors, 64 passes": (MatMul, "matmul", _multiply, 1),
    "a swap of 2048 x 2048": (SetWeights, "set_weights", _swap, 1),
}
"""Service, its name, what makes a request, and how many are in flight, by what they are called."""


def main(driver: str, kind: str) -> int:
    """Load a model of its own, print a line, and ask for it until SIGINT; returns 1 when it is refused."""
    service, name, make_request, in_flight = KINDS[kind]
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    node = Node("flood")
    executor = make_executor()
    executor.add_node(node)
    load = node.create_client(LoadModel, f"{driver}/load_model")
    client = node.create_client(service, f"{driver}/{name}", qos_profile=QOS_SERVICE)
    load.wait_for_service()
    client.wait_for_service()
    loaded = load.call_async(LoadModel.Request(model=MODEL, name="flood", client="flood", wait=True))
    executor.spin_until_future_complete(loaded)
    request = make_request(loaded.result().info)
    refusals: list[str] = []

    def ask() -> None:
        client.call_async(request).add_done_callback(go_on)

    def go_on(answer: Future) -> None:
        if not answer.result().success:
            refusals.append(answer.result().message)
        ask()

    for _ in range(in_flight):
        ask()
    print("flooding", flush=True)
    while not refusals:
        executor.spin_once(1.0)
    print(f"{name}: {refusals[0]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
