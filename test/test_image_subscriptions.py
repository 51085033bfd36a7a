"""Nodes of one process share what they make of an image: its pixels, its model inputs, the inferences."""

from __future__ import annotations

import array
import gc
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from edgetpu_driver.errors import UnavailableError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.images.encodings import ImageError
from edgetpu_driver.images.region import Region
from edgetpu_driver.node_kit.executor.callback_guard import reason
from edgetpu_driver.node_kit.images.image_messages import image_from_message
from edgetpu_driver.node_kit.images.image_subscriptions import Cameras, SharedImage

WHOLE = Region(0, 0, 4, 2)


def message(step: int = 4) -> Image:
    return Image(height=2, width=4, encoding="mono8", step=step, data=array.array("B", range(8)))


class Client:
    """Answers on demand; `asked` has the inputs of its requests, `resets` whether they reset state."""

    def __init__(self, model: str, driver: str = "/edgetpu") -> None:
        self.target = driver, model
        self.ready = True
        self.asked: list[Mapping[str, Any]] = []
        self.resets: list[bool] = []
        self._done: Callable[[InferenceResult], None] | None = None

    def invoke(
        self,
        inputs: Mapping[str, Any],
        done: Callable[[InferenceResult], None],
        still_wanted: Callable[[], bool],  # noqa: ARG002
        *,
        reset: bool,
    ) -> bool:
        if self.ready:
            self.asked.append(inputs)
            self.resets.append(reset)
            self._done = done
        return self.ready

    def answer(self, result: InferenceResult) -> None:
        assert self._done is not None
        self._done(result)


def inputs(image: SharedImage) -> dict[str, Any]:
    return {"image": image.image.fill(WHOLE, 1, 2, 1)}


RESULT = InferenceResult({"output": np.arange(3)})


@pytest.fixture
def image() -> SharedImage:
    return SharedImage(message(), image_from_message)


def test_an_image_is_decoded_once(image: SharedImage) -> None:
    assert image.image.pixels.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert image.image is image.image


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (Image(encoding="mono16"), True),
        (Image(encoding="bayer_rggb16"), True),
        (Image(encoding="mono8"), False),
        (CompressedImage(format="mono16; png compressed "), True),
        (CompressedImage(format="bgr8; jpeg compressed bgr8"), False),
        (CompressedImage(format="png"), False),
    ],
)
def test_images_of_16_bits_are_told_by_their_encoding(
    described: Image | CompressedImage, expected: bool
) -> None:
    assert SharedImage(described, image_from_message).has_16_bits == expected


def test_a_malformed_image_is_one_for_every_node() -> None:
    image = SharedImage(message(step=3), image_from_message)
    for _ in range(2):
        with pytest.raises(ImageError, match="wrong step"):
            _ = image.image


def test_a_malformed_image_is_released_without_the_garbage_collector() -> None:
    image = SharedImage(message(step=3), image_from_message)
    kept = weakref.ref(image)
    gc.disable()
    try:
        for _ in range(2):
            with suppress(ImageError):
                _ = image.image
        del image
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("second_comes_late", [False, True])
def test_two_nodes_with_one_model_share_its_inference(image: SharedImage, second_comes_late: bool) -> None:
    flow, compass = Client("features"), Client("features")
    answers: list[tuple[str, InferenceResult]] = []
    assert image.invoke(flow, inputs(image), lambda result: answers.append(("flow", result)))
    if second_comes_late:
        flow.answer(RESULT)
    assert image.invoke(compass, inputs(image), lambda result: answers.append(("compass", result)))
    if not second_comes_late:
        flow.answer(RESULT)
    assert answers == [("flow", RESULT), ("compass", RESULT)]
    assert (len(flow.asked), len(compass.asked)) == (1, 0)
    assert not RESULT.outputs["output"].flags.writeable


@pytest.mark.parametrize("other", [Client("looming"), Client("features", "/second_stick")])
def test_another_model_or_driver_gets_its_own_request(image: SharedImage, other: Client) -> None:
    first = Client("features")
    image.invoke(first, inputs(image), lambda _: None)
    image.invoke(other, inputs(image), lambda _: None)
    assert (len(first.asked), len(other.asked)) == (1, 1)


def test_a_node_that_fails_with_a_result_keeps_it_from_no_other(image: SharedImage) -> None:
    client, got = Client("model"), []

    def fail(_result: InferenceResult) -> None:
        raise RuntimeError("cannot decode the next image")

    image.invoke(client, inputs(image), fail)  # type: ignore[arg-type]
    image.invoke(Client("model"), inputs(image), got.append)  # type: ignore[arg-type]
    result = InferenceResult()
    with pytest.raises(RuntimeError, match="cannot decode the next image"):
        client.answer(result)
    assert got == [result]


def test_another_input_is_another_inference(image: SharedImage) -> None:
    first, second = Client("features"), Client("features")
    image.invoke(first, inputs(image), lambda _: None)
    image.invoke(second, {"image": image.image.fill(Region(1, 0, 3, 2), 1, 2, 1)}, lambda _: None)
    assert (len(first.asked), len(second.asked)) == (1, 1)


@pytest.mark.parametrize("second_comes_late", [False, True])
def test_an_inference_with_the_old_state_is_not_for_a_node_that_starts_again(
    image: SharedImage, second_comes_late: bool
) -> None:
    first, second, third = Client("cell"), Client("cell"), Client("cell")
    image.invoke(first, inputs(image), lambda _: None)
    if second_comes_late:
        first.answer(RESULT)
    for client in (second, third):
        image.invoke(client, inputs(image), lambda _: None, reset=True)
    assert (first.resets, second.resets, third.resets) == ([False], [True], [])


def test_an_error_goes_to_all_who_wait_and_is_not_kept(image: SharedImage) -> None:
    first, second = Client("features"), Client("features")
    errors: list[Any] = []
    for client in (first, second):
        image.invoke(client, inputs(image), lambda result: errors.append(result.error))
    lost = UnavailableError("the driver is gone")
    first.answer(InferenceResult(error=lost))
    assert errors == [lost, lost]
    assert image.invoke(second, inputs(image), lambda _: None)
    assert len(second.asked) == 1


def test_an_error_ends_the_question_it_answers_and_no_other(image: SharedImage) -> None:
    whole, part = Client("features"), Client("features")
    image.invoke(whole, inputs(image), lambda _: None)
    image.invoke(part, {"image": image.image.fill(Region(1, 0, 3, 2), 1, 2, 1)}, lambda _: None)
    part.answer(InferenceResult(error=UnavailableError("the driver is gone")))
    image.invoke(Client("features"), inputs(image), lambda _: None)
    assert len(whole.asked) == 1


def test_a_client_that_is_not_ready_leaves_no_trace(image: SharedImage) -> None:
    first, second = Client("features"), Client("features")
    first.ready = False
    assert not image.invoke(first, inputs(image), lambda _: None)
    assert image.invoke(second, inputs(image), lambda _: None)
    assert len(second.asked) == 1


class Handle:
    """A subscription's queue, empty unless a test puts something in."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None: ...

    def take_message(self, *_: object) -> tuple[bytes, dict[str, Any]] | None:
        return (self.waiting.pop(0), {}) if self.waiting else None


class Subscription:
    def __init__(self, kind: Any, topic: str, callback: Any, qos: Any, *, raw: bool) -> None:
        self.msg_type, self.topic, self.callback, self.qos_profile, self.raw = kind, topic, callback, qos, raw
        self.handle = Handle()


class Node:
    """Makes subscriptions and gives them back."""

    context = SimpleNamespace(ok=lambda: True)

    def __init__(self) -> None:
        self.subscriptions: list[Subscription] = []
        self.failures: list[str] = []

    def get_logger(self) -> Any:
        return SimpleNamespace(is_enabled_for=lambda _level: False)

    def on_callback_failure(self, source: str, error: Exception) -> None:
        self.failures.append(f"{source}: {reason(error)}")

    def create_subscription(self, *arguments: Any, **options: Any) -> Subscription:
        self.subscriptions.append(Subscription(*arguments, **options))
        return self.subscriptions[-1]

    def destroy_subscription(self, subscription: Subscription) -> None:
        self.subscriptions.remove(subscription)


QOS = QoSProfile(depth=5)


def listen(cameras: Cameras, node: Any, seen: list[Any], topic: str = "/image", **options: Any) -> None:
    options = {"compressed": False, "qos": QOS} | options
    cameras.listen_to_images(node, topic, listener=lambda image, _: seen.append(image), **options)


def test_nodes_on_one_topic_have_one_subscription_and_one_image() -> None:
    cameras, nodes, seen = Cameras(), [Node(), Node()], []
    for node in nodes:
        listen(cameras, node, seen)
    assert [len(node.subscriptions) for node in nodes] == [1, 0]
    nodes[0].subscriptions[0].callback(serialize_message(message()), {})
    assert len(seen) == 2
    assert seen[0] is seen[1]


@pytest.mark.parametrize(
    "other",
    [{"topic": "/other"}, {"qos": QoSProfile(depth=6)}, {"compressed": True}],
    ids=["topic", "QoS", "transport"],
)
def test_different_topics_have_separate_subscriptions(other: dict[str, Any]) -> None:
    cameras, nodes = Cameras(), [Node(), Node()]
    listen(cameras, nodes[0], [])
    listen(cameras, nodes[1], [], **other)
    assert [len(node.subscriptions) for node in nodes] == [1, 1]
    assert nodes[1].subscriptions[0].msg_type is (CompressedImage if "compressed" in other else Image)


def test_the_subscription_moves_when_its_holder_leaves() -> None:
    cameras, nodes, seen = Cameras(), [Node(), Node()], []
    for node in nodes:
        listen(cameras, node, seen)
    cameras.leave(nodes[0])
    assert [len(node.subscriptions) for node in nodes] == [0, 1]
    nodes[1].subscriptions[0].callback(serialize_message(message()), {})
    assert len(seen) == 1
    cameras.leave(nodes[1])
    assert nodes[1].subscriptions == []


def test_an_image_that_cannot_be_read_is_skipped_and_reported_by_every_node() -> None:
    cameras, nodes, seen = Cameras(), [Node(), Node()], []
    for node in nodes:
        listen(cameras, node, seen)
    nodes[0].subscriptions[0].callback(serialize_message(message())[:20], {})
    assert seen == []
    for node in nodes:
        (failure,) = node.failures
        assert failure.startswith("message on /image: cannot be read, skipped (ImageError: ")


def test_camera_info_that_cannot_be_read_is_reported_by_its_own_topic() -> None:
    cameras, node, seen = Cameras(), Node(), []
    listen(cameras, node, [])
    cameras.listen_to_camera_info(node, "/camera_info", seen.append)
    images, infos = node.subscriptions
    infos.handle.waiting.append(serialize_message(CameraInfo())[:20])  # it came while the image was processed
    images.callback(serialize_message(message()), {})
    assert seen == []
    assert [failure.split(" (")[0] for failure in node.failures] == [
        "message on /camera_info: cannot be read, skipped"
    ]


def test_camera_info_is_passed_on_when_it_says_something_new() -> None:
    cameras, node, seen = Cameras(), Node(), []
    cameras.listen_to_camera_info(node, "/camera_info", seen.append)
    receive = node.subscriptions[0].callback
    info = CameraInfo(width=640)
    for second, width in ((1, 640), (2, 640), (3, 320)):
        info.header.stamp.sec, info.width = second, width
        receive(serialize_message(info))
    assert [(message.header.stamp.sec, message.width) for message in seen] == [(1, 640), (3, 320)]
    late: list[CameraInfo] = []
    cameras.listen_to_camera_info(Node(), "/camera_info", late.append)
    assert [message.width for message in late] == [320]


def test_bytes_between_the_fields_of_camera_info_say_nothing_new() -> None:
    cameras, node, seen = Cameras(), Node(), []
    cameras.listen_to_camera_info(node, "/camera_info", seen.append)
    data = bytearray(serialize_message(CameraInfo(width=640)))
    after_frame_id = 4 + 8 + 4 + 1  # encoding, stamp, length of the text, its end
    for padding in (b"\0\0\0", b"\1\2\3"):
        data[after_frame_id : after_frame_id + 3] = padding
        node.subscriptions[0].callback(bytes(data))
    assert [message.width for message in seen] == [640]
