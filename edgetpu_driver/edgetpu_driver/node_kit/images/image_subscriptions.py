"""Images shared by the nodes of a process: one subscription, one decoding and one inference for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from std_msgs.msg import Header

from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import ImageError, Pixels
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.executor.callback_guard import UnreadableError, report
from edgetpu_driver.node_kit.images.image_messages import image_from_compressed_message, image_from_message
from edgetpu_driver.node_kit.images.newest_frame import Backlog, take_waiting
from edgetpu_driver.node_kit.images.sequence_gaps import SequenceGaps
from edgetpu_driver.node_kit.images.serialized_image import read_image
from edgetpu_driver.node_kit.messages.message_stamps import seconds_of

_HAS_MESSAGE_INFO = hasattr(Subscription, "CallbackType")  # not in Humble

# In CDR a message begins with 4 bytes that tell its encoding; the stamp, its first field, takes 8.
_AFTER_STAMP = 12

Inputs = Mapping[str, NDArray[Any]]
Done = Callable[[InferenceResult], None]
ImageListener = Callable[["SharedImage", int], None]
InfoListener = Callable[[CameraInfo], None]


@dataclass(eq=False)  # arrays have no truth value
class _Answer:
    """The result of a model for some inputs, or the requests that wait for it."""

    target: tuple[str, str]
    inputs: Inputs
    reset: bool
    result: InferenceResult | None = None
    waiting: list[Done] = field(default_factory=list)

    def is_to(self, target: tuple[str, str], inputs: Inputs, reset: bool) -> bool:
        """Whether this is the same request; inputs that nodes share are the same arrays."""
        mine = self.inputs
        same_arrays = all(mine.get(name) is array for name, array in inputs.items())
        return self.target == target and self.reset == reset and same_arrays


class SharedImage:
    """An image message with what the nodes of this process have computed from it so far."""

    def __init__(self, message: Any, decode: Callable[[Any], Pixels]) -> None:
        self.header: Header = message.header
        self.stamp = seconds_of(message.header)
        """Time of the image, s."""
        self.lost_before = 0
        """Number of images that were sent before this one and did not arrive."""
        self._message, self._decode = message, decode
        self._image: CameraImage | Callable[[], ImageError] | None = None
        """The image, or a function that makes its error: an error that was raised before would refer to this
        object through its traceback."""
        self._answers: list[_Answer] = []

    @property
    def image(self) -> CameraImage:
        """The image, decoded on first use; ImageError for a malformed one."""
        if self._image is None:
            try:
                self._image = CameraImage(self._decode(self._message))
            except ImageError as error:
                self._image = partial(ImageError, error.fault, error.reason)
        if not isinstance(self._image, CameraImage):
            raise self._image()
        return self._image

    @property
    def has_16_bits(self) -> bool:
        """Whether the message says that its pixels have 16 bits per channel."""
        encoding: str = getattr(self._message, "encoding", "") or getattr(self._message, "format", "")
        return encoding.partition(";")[0].endswith("16")

    def invoke(
        self,
        client: ModelClient,
        inputs: Inputs,
        done: Done,
        still_wanted: Callable[[], bool] = lambda: True,
        *,
        reset: bool = False,
    ) -> bool:
        """Run a model on inputs computed from the image, as ModelClient.invoke does.

        If another node has requested the same model of the same driver with the same array and the same
        `reset`, `done` gets the result of that request, now or when it arrives.
        """
        target = client.target
        for answer in self._answers:
            if answer.is_to(target, inputs, reset):
                if answer.result is None:
                    answer.waiting.append(done)
                else:
                    done(answer.result)
                return True
        return self._ask(client, _Answer(target, inputs, reset, waiting=[done]), still_wanted)

    def _ask(self, client: ModelClient, answer: _Answer, still_wanted: Callable[[], bool]) -> bool:
        def answered(result: InferenceResult) -> None:
            answer.result = result
            if result.error is not None:
                self._answers.remove(answer)
            for output in result.outputs.values():
                output.flags.writeable = False
            waiting, answer.waiting = answer.waiting, []
            with ExitStack() as calls:  # which makes all of them, and raises what one raises
                for done in reversed(waiting):
                    calls.callback(done, result)

        self._answers.append(answer)
        try:
            asked = client.invoke(answer.inputs, answered, still_wanted, reset=answer.reset)
        except BaseException:
            self._answers.remove(answer)
            raise
        if not asked:
            self._answers.remove(answer)
        return asked


Listener = TypeVar("Listener", ImageListener, InfoListener)


class _Topic(ABC, Generic[Listener]):
    """One subscription for several listeners; one of their nodes holds it, and another when that leaves."""

    def __init__(self, kind: type[Any], name: str, qos: QoSProfile, *, raw: bool = False) -> None:
        self._kind, self._name, self._qos, self._raw = kind, name, qos, raw
        self._listeners: dict[Node, Listener] = {}
        self._holder: Node | None = None
        self._subscription: Subscription | None = None

    def add(self, node: Node, listener: Listener) -> None:
        """Start to call the listener."""
        self._listeners[node] = listener
        if self._holder is None:
            self._subscribe(node)

    def remove(self, node: Node) -> None:
        """Stop calling the node's listener."""
        self._listeners.pop(node, None)
        if self._holder is not None and node is self._holder:
            node.destroy_subscription(self._subscription)
            self._holder = self._subscription = None
            if self._listeners:
                self._subscribe(next(iter(self._listeners)))

    def _subscribe(self, node: Node) -> None:
        self._holder = node
        self._subscription = node.create_subscription(
            self._kind, self._name, self._callback(), self._qos, raw=self._raw
        )

    def _callback(self) -> Callable[..., None]:
        return self._on_message

    def poll(self) -> None:
        """Take the messages that wait, without a round of the executor."""
        if self._subscription is not None:
            for message in take_waiting(self._subscription, None):
                self._on_message(message)

    def _notify(self, *arguments: Any) -> None:
        """Call the listeners; an exception of one concerns only its own node."""
        for node, listener in list(self._listeners.items()):
            notify: Callable[..., None] = listener
            try:
                notify(*arguments)
            except Exception as error:
                report([node], f"message on {self._name}", error)

    def _notify_unreadable(self, cause: Exception) -> None:
        """Have all nodes log and count a message that cannot be read."""
        for node in list(self._listeners):
            report([node], f"message on {self._name}", UnreadableError(cause))

    @abstractmethod
    def _on_message(self, message: Any) -> None: ...


class _Images(_Topic[ImageListener]):
    """Image messages: all that queued during a short delay, only the newest if the nodes are too slow."""

    def __init__(
        self,
        kind: type[Any],
        name: str,
        qos: QoSProfile,
        decode: Callable[[Any], Pixels],
        afterwards: Callable[[], None],
    ) -> None:
        super().__init__(kind, name, qos, raw=kind is Image)
        self._decode, self._afterwards = decode, afterwards
        self._backlog = Backlog[Any]()
        self._gaps = SequenceGaps()

    def _callback(self) -> Callable[..., None]:
        return self._on_message_with_info if _HAS_MESSAGE_INFO else self._on_message

    def _on_message_with_info(self, message: Any, info: Any) -> None:
        self._gaps.add(info)
        self._on_message(message)

    def _on_message(self, message: Any) -> None:
        assert self._subscription is not None
        waiting = take_waiting(self._subscription, message, self._gaps.add)
        lost = self._gaps.take()
        if len(waiting) >= self._qos.depth:
            lost = 0  # the queue was full: the node was too slow and messages were overwritten
        messages, skipped = self._backlog.select(waiting)
        for selected in messages:
            try:
                image = SharedImage(read_image(selected) if self._raw else selected, self._decode)
            except ImageError as error:  # no valid message; the middleware has not looked at it
                self._notify_unreadable(error)
                continue
            image.lost_before, lost = lost, 0
            self._notify(image, skipped)
        self._afterwards()


class _Infos(_Topic[InfoListener]):
    """CameraInfo when its content has changed; it is published with every image and seldom changes."""

    def __init__(self, name: str) -> None:
        super().__init__(CameraInfo, name, qos_profile_sensor_data, raw=True)
        self._seen = b""
        self._last: CameraInfo | None = None

    def add(self, node: Node, listener: InfoListener) -> None:
        """Start to call the listener, at once with the latest message if there is one."""
        super().add(node, listener)
        if self._last is not None:
            listener(self._last)

    def _on_message(self, message: bytes) -> None:
        content = message[_AFTER_STAMP:]
        if content == self._seen:
            return
        try:
            info = deserialize_message(message, CameraInfo)
        except Exception as error:  # of rclpy and of its middleware
            self._notify_unreadable(error)
            return
        self._seen = content
        if self._last is None or not _is_same_camera(info, self._last):
            self._last = info
            self._notify(info)


def _is_same_camera(info: CameraInfo, last: CameraInfo) -> bool:
    """Whether messages differ in their stamps only.

    The bytes of equal messages may differ, because CDR leaves the padding between fields undefined.
    """
    stamp, info.header.stamp = info.header.stamp, last.header.stamp
    same = bool(info == last)
    info.header.stamp = stamp
    return same


class Cameras:
    """The subscriptions of the nodes of one executor: one for each topic and requested QoS."""

    def __init__(self) -> None:
        self._topics: dict[tuple[Any, ...], _Topic[Any]] = {}

    def listen_to_images(
        self, node: Node, topic: str, *, compressed: bool, qos: QoSProfile, listener: ImageListener
    ) -> None:
        """Call `listener` with each image and the number of older ones that were skipped in favour of it.

        topic: full name; of type CompressedImage if `compressed`.
        """
        key = topic, compressed, qos.reliability, qos.depth
        if key not in self._topics:
            kind, decode = (
                (CompressedImage, image_from_compressed_message)
                if compressed
                else (Image, image_from_message)
            )
            self._topics[key] = _Images(kind, topic, qos, decode, self._poll_camera_info)
        self._topics[key].add(node, listener)

    def listen_to_camera_info(self, node: Node, topic: str, listener: InfoListener) -> None:
        """Call `listener` with the CameraInfo on the topic of that full name whenever it changes."""
        self._topics.setdefault((topic,), _Infos(topic)).add(node, listener)

    def _poll_camera_info(self) -> None:
        """Take the camera_info that arrived while its image was processed."""
        for topic in self._topics.values():
            if isinstance(topic, _Infos):
                topic.poll()

    def leave(self, node: Node) -> None:
        """Stop calling the node's listeners; to be called before the node is destroyed."""
        for topic in self._topics.values():
            topic.remove(node)
