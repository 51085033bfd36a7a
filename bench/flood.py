"""A client that keeps a driver busy until SIGINT: `python -m bench.flood DRIVER KIND`."""

from __future__ import annotations

import itertools
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

from edgetpu_driver.node_kit.executor.executor import make_executor
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_msgs.msg import ModelInfo, Tensor
from edgetpu_msgs.srv import Invoke, LoadModel, MatMul, SetWeights

FLOOD_MODEL = "dense_256"
"""The model that keeps the driver busy."""
OTHER_MODEL = "spot_bright_64x64"
"""The model of the client that is measured; a flood of loads loads it, too."""
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


def _load(model: str) -> Any:
    return LoadModel.Request(model=model, name="flood", client="flood", wait=True)


LOADS = "20 loads in flight"

KINDS: dict[str, tuple[Any, str, Callable[[ModelInfo], list[Any]], int]] = {
    "50 in flight": (Invoke, "invoke", lambda info: [_invoke(info)], 50),
    "a product of 20,000 vectors, 64 passes": (MatMul, "matmul", lambda info: [_multiply(info)], 1),
    "a swap of 2048 x 2048": (SetWeights, "set_weights", lambda info: [_swap(info)], 1),
    LOADS: (LoadModel, "load_model", lambda _: [_load(OTHER_MODEL), _load(FLOOD_MODEL)], 20),
}
"""By kind: service type, name of the service, function that makes the requests, and number in flight."""


def main(driver: str, kind: str) -> int:
    """Load a model, print a line, and send requests until SIGINT; return 1 if a request is refused."""
    service, name, make_requests, in_flight = KINDS[kind]
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    node = Node("flood")
    executor = make_executor()
    executor.add_node(node)
    load = node.create_client(LoadModel, f"{driver}/load_model")
    client = node.create_client(service, f"{driver}/{name}", qos_profile=QOS_SERVICE)
    load.wait_for_service()
    client.wait_for_service()
    loaded = load.call_async(_load(FLOOD_MODEL))
    executor.spin_until_future_complete(loaded)
    requests = itertools.cycle(make_requests(loaded.result().info))
    refusals: list[str] = []

    def ask() -> None:
        client.call_async(next(requests)).add_done_callback(go_on)

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
