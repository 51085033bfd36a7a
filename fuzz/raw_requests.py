"""Sends arbitrary bytes as a request to a service through the middleware's C interface, as rclpy cannot.

DDS carries requests on a topic whose name has no leading slash, on which rclpy cannot publish. The middleware
library must export `rmw_create_publisher` and similar functions.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from rclpy.node import Node

_LIBRARIES = "librmw_implementation.so", "librmw_fastrtps_cpp.so", "librmw_cyclonedds_cpp.so"
_KEEP_LAST, _RELIABLE, _VOLATILE = 1, 1, 2
"""Constants of rmw/types.h."""


class _Time(ctypes.Structure):
    _fields_ = (("sec", ctypes.c_uint64), ("nsec", ctypes.c_uint64))


class _Qos(ctypes.Structure):
    """rmw_qos_profile_t of rmw/types.h."""

    _fields_ = (
        ("history", ctypes.c_int),
        ("depth", ctypes.c_size_t),
        ("reliability", ctypes.c_int),
        ("durability", ctypes.c_int),
        ("deadline", _Time),
        ("lifespan", _Time),
        ("liveliness", ctypes.c_int),
        ("liveliness_lease_duration", _Time),
        ("avoid_ros_namespace_conventions", ctypes.c_bool),
    )


class _Options(ctypes.Structure):
    """rmw_publisher_options_t."""

    _fields_ = (("payload", ctypes.c_void_p), ("unique_network_flow", ctypes.c_int))


class _Bytes(ctypes.Structure):
    """rcutils_uint8_array_t; its allocator is not used for publishing."""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("allocator", ctypes.c_void_p * 5),
    )


class RawRequests:
    """Publishes bytes on the request topic of one service."""

    def __init__(self, node: Node, kind: Any, service: str) -> None:
        """`service`: full name of the service. Raises OSError if the middleware does not support this."""
        self._library = _middleware()
        self._request = f"rq{service}Request".encode()
        get_node = ctypes.CDLL(_loaded("librcl.so")).rcl_node_get_rmw_handle
        get_node.restype, get_node.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        create = self._library.rmw_create_publisher
        create.restype = ctypes.c_void_p
        create.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        qos = _Qos(_KEEP_LAST, 1000, _RELIABLE, _VOLATILE, avoid_ros_namespace_conventions=True)
        with node.handle:
            owner = get_node(node.handle.pointer)
            publisher = create(
                owner, _type_support(kind.Request), self._request, ctypes.byref(qos), ctypes.byref(_Options())
            )
        if not publisher:
            raise OSError(f"the middleware makes no publisher for the requests of {service}")
        self._publisher = publisher
        self._publish = self._library.rmw_publish_serialized_message
        self._publish.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self._count = self._library.rmw_publisher_count_matched_subscriptions
        self._count.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))

    def matched(self) -> bool:
        """Whether the service has been found."""
        count = ctypes.c_size_t()
        self._count(self._publisher, ctypes.byref(count))
        return count.value > 0

    def send(self, data: bytes) -> bool:
        """Send bytes as a request; returns whether the middleware accepted them."""
        buffer = ctypes.create_string_buffer(data, max(1, len(data)))
        message = _Bytes(ctypes.cast(buffer, ctypes.c_void_p), len(data), len(data))
        return int(self._publish(self._publisher, ctypes.byref(message), None)) == 0


def _middleware() -> ctypes.CDLL:
    for name in _LIBRARIES:
        path = _loaded(name)
        if path:
            library = ctypes.CDLL(path)
            if hasattr(library, "rmw_create_publisher"):
                return library
    raise OSError("none of the middleware's libraries offers its C interface")


def _loaded(name: str) -> str:
    """The path of a library that this process has loaded; empty if it has not."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.rpartition(" ")[2]
        if Path(path).name.startswith(name):
            return path
    return ""


def _type_support(message: Any) -> int:
    kind = type(message)
    if kind._TYPE_SUPPORT is None:
        kind.__import_type_support__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    capsule = kind._TYPE_SUPPORT
    return int(pointer(capsule, name(capsule)))
