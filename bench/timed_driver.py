"""Records the time that a driver takes for requests of "timed_client": `python -m bench.timed_driver`.

The service ~/times answers with a JSON list of the times since its last call, s: each from taking a request
to sending its answer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.service import Service
from std_srvs.srv import Trigger

from edgetpu_driver.node_kit.deferred_service import Respond, create_deferred_service
from edgetpu_driver.node_kit.process.spin import run
from edgetpu_driver.node_kit.process.unused_memory import reuse_large_blocks
from edgetpu_driver.node_kit.process_entry import run_main
from edgetpu_driver.nodes import driver_services
from edgetpu_driver.nodes.driver_node import DriverNode

TIMED_CLIENT = "timed_client"
"""Name of the client whose requests are timed."""

_seconds: list[float] = []


def _timed(
    node: Node, kind: Any, name: str, callback: Callable[[Any, Respond], None], qos: QoSProfile
) -> Service:
    def on_request(request: Any, respond: Respond) -> None:
        taken = time.perf_counter()

        def respond_timed(response: Any) -> None:
            respond(response)
            _seconds.append(time.perf_counter() - taken)

        callback(request, respond_timed if getattr(request, "client", "") == TIMED_CLIENT else respond)

    return create_deferred_service(node, kind, name, on_request, qos)


def _answer_times(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
    seconds, _seconds[:] = list(_seconds), []
    response.success, response.message = True, json.dumps(seconds)
    return response


def _make() -> list[Node]:
    driver = DriverNode()
    driver.create_service(Trigger, "~/times", _answer_times)
    return [driver]


def main() -> int:
    """Run the driver until SIGINT."""
    reuse_large_blocks()
    setattr(driver_services, "create_deferred_service", _timed)  # noqa: B010 - mypy knows it as a function
    return run(_make)


if __name__ == "__main__":
    sys.exit(run_main("bench.timed_driver"))
