"""Calls of services of the graph from another thread's event loop: parameters, models, actions."""

from __future__ import annotations

import array
import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rcl_interfaces.msg import ParameterDescriptor, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from edgetpu_dashboard.live.parameter_texts import Value, value_of
from edgetpu_dashboard.live.picture_encoding import Pixels, error_picture
from edgetpu_dashboard.live.picture_selection import is_grey, spot_weights
from edgetpu_driver.errors import EdgeTpuError, InputError, UnavailableError
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_driver.files.file_access import user_path
from edgetpu_driver.node_kit.images.image_messages import message_from_labels, message_from_rgb
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.node_kit.node_table import DRIVER
from edgetpu_driver.node_kit.printable_text import counted
from edgetpu_msgs.srv import (
    AddPlace,
    ListModels,
    LoadModel,
    SetColor,
    SetTemplate,
    SetWeights,
    TrainReadout,
    UnloadModel,
)

CALLED = (
    AddPlace,
    DescribeParameters,
    GetParameters,
    ListModels,
    ListParameters,
    LoadModel,
    SetColor,
    SetParameters,
    SetTemplate,
    SetWeights,
    TrainReadout,
    Trigger,
    UnloadModel,
)
"""Services that are called, for the security policy."""

DISCOVERY = 3.0
"""Seconds to wait until a service is found."""
ANSWER = 10.0
"""Seconds to wait for an answer."""
MODEL_ANSWER = 60.0
"""Seconds for the answer to loading a model, which may be compiled and uploaded first."""
_POLL = 0.05

_ITEMS: dict[int, Value] = {
    ParameterType.PARAMETER_BYTE_ARRAY: [b"\0"],
    ParameterType.PARAMETER_BOOL_ARRAY: [False],
    ParameterType.PARAMETER_INTEGER_ARRAY: [0],
    ParameterType.PARAMETER_DOUBLE_ARRAY: [0.0],
    ParameterType.PARAMETER_STRING_ARRAY: [""],
}
"""A list with one item, by the type of a parameter that is an array."""

_OF_ROS = {"use_sim_time": "Take the time from /clock, for example that of a simulator or a bag."}
"""Descriptions of parameters that rclpy declares without one."""

_T = TypeVar("_T")


class RefusedError(EdgeTpuError):
    """A node refused a request, with the node's message."""


@dataclass(frozen=True)
class ShownParameter:
    """A parameter of a running node."""

    name: str
    value: Value | None
    description: str
    limits: str
    """The range or the choices in words; empty: none."""
    choices: tuple[str, ...]
    read_only: bool
    like: Value | None = None
    """A value of the same type, not empty if it is a list."""
    any_type: bool = False
    """Whether the node takes values of other types than the present value's."""


class GraphCalls:
    """Requests to the other nodes of the namespace; every method is for an event loop in another thread."""

    def __init__(self, node: Node, full_name: Callable[[str], str]) -> None:
        self._node = node
        self._full_name = full_name
        self._callers: dict[str, Any] = {}

    async def in_executor(self, work: Callable[[], _T]) -> _T:
        """Run a function in the thread of the node's executor and return what it returns.

        Raises UnavailableError if the dashboard is stopping or too busy, and what the function raises.
        """
        done: Future[_T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return  # it was cancelled
            try:
                done.set_result(work())
            except Exception as error:
                done.set_exception(error)

        try:
            self._node.executor.create_task(run)
        except AttributeError:  # the node has no executor any more, or rclpy has shut it down
            raise UnavailableError("the dashboard is stopping") from None
        try:
            return await asyncio.wait_for(asyncio.wrap_future(done), ANSWER)
        except asyncio.TimeoutError:
            raise UnavailableError(f"the dashboard did not answer within {ANSWER:g} s") from None

    async def ask(self, kind: Any, node: str, service: str, seconds: float = ANSWER, **fields: Any) -> Any:
        """Call a service of a node of the table; UnavailableError without an answer, or RefusedError."""
        name = f"{self._full_name(node)}/{service}"
        client = await self._ready_client(kind, node, name)
        done: Future[Any] = Future()
        pending: list[Any] = []

        def call() -> None:
            pending.append(client.call_async(kind.Request(**fields)))
            pending[0].add_done_callback(finish)

        def finish(future: Any) -> None:
            if not done.set_running_or_notify_cancel():
                return
            if future.exception() is not None:
                done.set_exception(future.exception())
            else:
                done.set_result(future.result())

        def give_up() -> None:
            for future in pending:
                client.remove_pending_request(future)

        try:
            await self.in_executor(call)
            answer = await asyncio.wait_for(asyncio.wrap_future(done), seconds)
        except asyncio.TimeoutError:
            await self.in_executor(give_up)
            raise UnavailableError(f"{name} did not answer within {seconds:g} s") from None
        except asyncio.CancelledError:  # the page that asked is gone
            with suppress(AttributeError):  # and the node has no executor any more
                self._node.executor.create_task(give_up)
            raise
        if getattr(answer, "success", True) is False:
            raise RefusedError(answer.message or f"{name} refused")
        return answer

    async def _ready_client(self, kind: Any, node: str, name: str) -> Any:
        """Return a client of a node's service once it is found; UnavailableError after DISCOVERY seconds."""
        client = await self.in_executor(lambda: self._client(kind, name))
        for _ in range(round(DISCOVERY / _POLL)):
            if client.service_is_ready():
                return client
            await asyncio.sleep(_POLL)
        raise UnavailableError(f"{node} is not running: there is no {name}")

    async def trigger(self, node: str, service: str) -> str:
        """Call a service without arguments; return its message."""
        return str((await self.ask(Trigger, node, service)).message) or "done"

    async def parameters(self, node: str) -> list[ShownParameter]:
        """Ask for all parameters of a node, sorted by name."""
        listed = await self.ask(ListParameters, node, "list_parameters")
        names = sorted(listed.result.names)
        described = await self.ask(DescribeParameters, node, "describe_parameters", names=names)
        values = await self.ask(GetParameters, node, "get_parameters", names=names)
        if not len(names) == len(described.descriptors) == len(values.values):
            raise UnavailableError(f"the parameters of {node} changed while they were read; try again")
        return [
            _shown(name, value, descriptor)
            for name, value, descriptor in zip(names, values.values, described.descriptors, strict=True)
        ]

    async def value(self, node: str, name: str) -> Any:
        """Ask for the value of one parameter; lists as lists."""
        (value,) = (await self.ask(GetParameters, node, "get_parameters", names=[name])).values
        found = parameter_value_to_python(value)
        return found.tolist() if isinstance(found, array.array) else found

    async def set_parameter(
        self, node: str, name: str, text: str, like: Value, *, any_type: bool = False
    ) -> Value:
        """Set a parameter to the typed text, read as `value_of` does; return the value."""
        value = value_of(text, like, any_type=any_type)
        return await self.set_value(node, name, value, value if any_type else like)

    async def set_value(self, node: str, name: str, value: Value, like: Value | None = None) -> Value:
        """Set a parameter. RefusedError with the node's reason.

        like: a value of the same type, if the value may be an empty list.
        """
        kind = Parameter.Type.from_parameter_value(value if like is None else like)
        message = Parameter(name, kind, value).to_parameter_msg()
        answer = await self.ask(SetParameters, node, "set_parameters", parameters=[message])
        (result,) = answer.results
        if not result.successful:
            raise RefusedError(result.reason)
        return value

    async def set_color(self, node: str, rgb: tuple[int, int, int]) -> str:
        """Let a spot tracker track a colour."""
        await self.ask(SetColor, node, "set_color", rgb=spot_weights(rgb))
        return f"tracks brightness, as {rgb} is grey" if is_grey(rgb) else f"tracks the colour {rgb}"

    async def set_template(self, node: str, view: Pixels, box: tuple[int, int, int, int]) -> str:
        """Let a pattern tracker look for a part of a picture: x, y, width and height, px."""
        x, y, width, height = box
        patch = np.ascontiguousarray(view[y : y + height, x : x + width])
        answer = await self.ask(
            SetTemplate, node, "set_template", patch=_image(patch), view=_image(view), accept_ambiguous=True
        )
        doubt = "; it resembles another part of the picture" if answer.ambiguous else ""
        return f"looks for a patch of {width} x {height} px{doubt}"

    async def train(self, node: str, regularization: float, forget: bool) -> str:
        """Train the readout of a reservoir."""
        answer = await self.ask(
            TrainReadout,
            node,
            "train_readout",
            MODEL_ANSWER,
            regularization=regularization,
            forget=forget,
        )
        rms = ", ".join(f"{value:.4g}" for value in answer.residual_rms)
        return f"trained on {answer.samples} samples; residual {rms}"

    async def add_place(self, node: str, label: str, replace: bool) -> str:
        """Add the present view to a place."""
        answer = await self.ask(AddPlace, node, "add_place", label=label, replace=replace)
        known = "place is" if answer.places == 1 else "places are"
        return f"{label}: {answer.places} {known} known, by {counted(answer.embeddings, 'view')}"

    async def model_folder(self) -> Path:
        """Ask for the first folder that the driver loads models from, on this computer."""
        folders = await self.value(DRIVER, "model_dirs")
        return next((user_path(each) for each in folders if each), default_model_dir())

    async def models(self) -> Any:
        """Ask the driver for its models: the answer of ~/list_models."""
        return await self.ask(ListModels, DRIVER, "list_models")

    async def load_model(self, model: str, name: str) -> str:
        """Load a model as shared."""
        answer = await self.ask(
            LoadModel, DRIVER, "load_model", MODEL_ANSWER, model=model, name=name, shared=True, wait=True
        )
        return f"{answer.info.name} is loaded"

    async def unload_model(self, name: str) -> str:
        """Unload a model."""
        await self.ask(UnloadModel, DRIVER, "unload_model", name=name)
        return f"{name} is unloaded"

    async def set_weights(
        self, model: str, tensor: str, weights: npt.NDArray[np.float32]
    ) -> tuple[str, Pixels]:
        """Replace the weights of a model; return the driver's report of the errors, and a picture of them."""
        if weights.ndim != 2 or not np.isfinite(weights).all():
            raise InputError(f"expected a matrix of finite numbers; got an array of shape {weights.shape}")
        answer = await self.ask(
            SetWeights,
            DRIVER,
            "set_weights",
            MODEL_ANSWER,
            model=model,
            tensor=tensor,
            weights=array.array("f", np.ascontiguousarray(weights, np.float32).tobytes()),
            shape=list(weights.shape),
            accept_clipping=True,
        )
        text = (
            f"version {answer.weights_version} of {model}: largest error {answer.worst_error:.3g}, "
            f"RMS {answer.rms_error:.3g}, {answer.clipped} clipped"
        )
        scales = np.asarray(answer.row_scales, np.float32)
        scales = np.resize(scales, len(weights))
        clips = answer.clipped > 0
        picture = await asyncio.to_thread(error_picture, weights, scales, has_clipped=clips)
        return text, picture

    def _client(self, kind: Any, name: str) -> Any:
        assert kind in CALLED
        if name not in self._callers:
            self._callers[name] = self._node.create_client(kind, name, qos_profile=QOS_SERVICE)
        return self._callers[name]


def _shown(name: str, message: ParameterValue, descriptor: ParameterDescriptor) -> ShownParameter:
    value = parameter_value_to_python(message)
    limits = descriptor.additional_constraints
    for span in (*descriptor.floating_point_range, *descriptor.integer_range):
        limits = f"{span.from_value:.10g} to {span.to_value:.10g}"
    choices: tuple[str, ...] = ()
    if isinstance(value, str) and descriptor.additional_constraints.startswith("one of "):
        names = descriptor.additional_constraints.removeprefix("one of ").split(", ")
        found = tuple("" if each == "'' (nothing)" else each for each in names)
        choices = found if value in found else ()  # of a node that uses the words otherwise
    if isinstance(value, array.array):
        value = value.tolist()
    return ShownParameter(
        name,
        value,
        descriptor.description or _OF_ROS.get(name, ""),
        limits,
        choices,
        descriptor.read_only,
        value or _ITEMS.get(message.type, value),
        descriptor.dynamic_typing,
    )


def _image(picture: Pixels) -> Image:
    if picture.ndim == 2:
        return message_from_labels(Header(), picture)
    return message_from_rgb(Header(), picture)
