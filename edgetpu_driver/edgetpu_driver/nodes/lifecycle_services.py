"""The lifecycle services of the driver node, with queues as deep as those of its other services.

The services that rcl makes for a lifecycle node queue ten requests each, and lose further ones. The methods
of LifecycleNodeMixin that answer the requests, such as `__on_change_state`, are private to rclpy; if
they are missing, the services of rcl remain.
"""

from __future__ import annotations

from typing import Any

from lifecycle_msgs.srv import ChangeState, GetAvailableStates, GetAvailableTransitions, GetState
from rclpy.lifecycle import LifecycleNode, LifecycleNodeMixin
from rclpy.qos import QoSProfile

_KINDS: dict[str, Any] = {
    "change_state": ChangeState,
    "get_state": GetState,
    "get_available_states": GetAvailableStates,
    "get_available_transitions": GetAvailableTransitions,
    "get_transition_graph": GetAvailableTransitions,
}
"""Types of the services by their names below that of the node."""


def left_to_rcl() -> bool:
    """Whether rcl has to make the services, because this version of rclpy has no such methods."""
    return not all(hasattr(LifecycleNodeMixin, _method(name)) for name in _KINDS)


def create_lifecycle_services(node: LifecycleNode, qos: QoSProfile) -> None:
    """Make the services of a node that was made without those of rcl."""
    for name, kind in _KINDS.items():
        node.create_service(kind, f"~/{name}", getattr(node, _method(name)), qos_profile=qos)


def _method(service: str) -> str:
    """Name of the method that answers requests to a service, as Python stores it."""
    return f"_{LifecycleNodeMixin.__name__}__on_{service}"
