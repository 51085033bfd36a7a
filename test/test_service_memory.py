"""Services free the memory of requests that have waited, with the shipped profile."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from demo.processes import isolate
from edgetpu_driver.node_kit.middleware.profile_variables import PROFILE_VARIABLES
from testdata.timeouts import PATIENCE

_REQUESTS, _BYTES = 300, 60_000
"""Requests that wait in the queue of a service at once, and the size of each, which is one fragment."""


class _Heap(ctypes.Structure):
    """What glibc's mallinfo2 returns (malloc.h)."""

    _fields_ = [(f"field{number}", ctypes.c_size_t) for number in range(10)]

    @classmethod
    def used(cls) -> int:
        """Bytes of the heap that are in use, those in mapped blocks included."""
        mallinfo2 = ctypes.CDLL(None).mallinfo2
        mallinfo2.restype = cls
        info = mallinfo2()
        return int(info.field7) + int(info.field4)  # uordblks, hblkhd


def _main() -> None:
    """Have requests wait, take them, and print the bytes in use before, meanwhile and after."""
    import rclpy
    from rcl_interfaces.msg import Parameter
    from rcl_interfaces.srv import SetParameters

    from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE

    rclpy.init()
    node = rclpy.create_node("queue", start_parameter_services=False)
    service = node.create_service(
        SetParameters, "~/slow", lambda _, response: response, qos_profile=QOS_SERVICE
    )
    client = node.create_client(SetParameters, "~/slow", qos_profile=QOS_SERVICE)
    client.wait_for_service()
    request = SetParameters.Request(parameters=[Parameter(name="n" * _BYTES)])
    for count in (1, _REQUESTS):
        before = _Heap.used()
        for _ in range(count):
            client.handle.send_request(request)
        meanwhile, taken = _Heap.used(), 0
        while taken < count:
            taken += service.handle.service_take_request(SetParameters.Request)[1] is not None
    after, end = _Heap.used(), time.monotonic() + PATIENCE
    while after - before >= 0.1 * (meanwhile - before) and time.monotonic() < end:
        time.sleep(0.1)  # the client keeps a request until the service's acknowledgement has come
        after = _Heap.used()
    print(before, meanwhile, after)
    node.destroy_node()
    rclpy.shutdown()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33 or later")
@pytest.mark.skipif(
    "fastrtps" not in os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp"), reason="needs Fast DDS"
)
def test_the_memory_of_requests_that_waited_is_freed() -> None:
    environment = {key: value for key, value in os.environ.items() if key not in PROFILE_VARIABLES}
    done = subprocess.run(
        [sys.executable, __file__],
        env={**environment, **isolate(environment), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=True,
    )
    before, meanwhile, after = map(int, done.stdout.split())
    assert meanwhile - before >= _REQUESTS * _BYTES
    assert after - before < 0.1 * (meanwhile - before)


if __name__ == "__main__":
    _main()
