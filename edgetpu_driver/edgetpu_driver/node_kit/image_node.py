"""The base of all image nodes: images in, a model run by the driver, results and diagnostics out."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray
from rclpy.qos import ReliabilityPolicy
from std_msgs.msg import Header

from edgetpu_driver.errors import BusyError, EdgeTpuError, ExpiredError, ModelNotFoundError, UnavailableError
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_terms import Priority
from edgetpu_driver.images import drawing
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import ImageError, Pixels
from edgetpu_driver.images.region import Region
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients.client_state import ClientClosedError
from edgetpu_driver.node_kit.clients.load_result import ModelFile
from edgetpu_driver.node_kit.clients.model_client import ModelClient
from edgetpu_driver.node_kit.diagnostics import ImageCounters
from edgetpu_driver.node_kit.images.debug_image_publisher import DebugImages
from edgetpu_driver.node_kit.images.image_parameters import image_settings
from edgetpu_driver.node_kit.images.image_subscriptions import Cameras, SharedImage
from edgetpu_driver.node_kit.images.missing_images import MissingImages
from edgetpu_driver.node_kit.images.newest_frame import NewestFrame
from edgetpu_driver.node_kit.images.rate_limit import RateLimit
from edgetpu_driver.node_kit.middleware.qos_profiles import subscription_qos
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.several_publishers import several_publishers
from edgetpu_driver.tflite.tensor import TensorSpec

_DRIVER_GONE = (ModelNotFoundError, UnavailableError)
_TOO_LATE = (BusyError, ExpiredError)
_UNSCALED_WHITE = 16
"""Derived: value of white, of 255, if a driver passes 12 bits of a sensor on as 16 bits without scaling."""


class PreparedFrame(Protocol):
    """A model's inputs made from one image, with what the result needs to know about that image."""

    @property
    def inputs(self) -> Mapping[str, NDArray[Any]]:
        """The model's inputs by name; read-only."""
        ...


class ImageAlgorithm(Protocol):
    """The algorithm of an image node: makes a result from an image, by one inference."""

    region: Region
    """Part of the image to process."""
    min_confidence: float
    """Results with less confidence than this, 0..1, are not valid."""

    @property
    def model(self) -> str:
        """Name of the default model; empty if there is none."""
        ...

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Set the model that inference runs; EdgeTpuError if it does not suit."""
        ...

    def preprocess(self, image: CameraImage, stamp: float) -> Any:
        """Make the model's inputs, a PreparedFrame, from an image taken at `stamp`, s."""
        ...

    def postprocess(self, frame: Any, outputs: Mapping[str, NDArray[Any]]) -> Any:
        """Make the result, which has a field `valid`, from a frame and the model's outputs by name."""
        ...


class ImageNode(BaseNode):
    """One algorithm on camera images as a node.

    A subclass calls `super().__init__(name)`, makes its publishers and its algorithm from `values`, and hands
    the algorithm to `start`. It publishes a result (`publish`) and draws it (`draw`).

    Everything happens in the executor's thread: an image is decoded and its model input sent to the driver,
    the answer arrives in a callback. Images that arrive meanwhile wait in a `NewestFrame`, which counts those
    that it drops.
    """

    settings: ClassVar[tuple[Setting, ...]] = image_settings()
    subject = "images"

    begins_anew: bool = False
    """Whether the present image starts a new sequence, so that state of the model is set to zero."""

    changes_model: ClassVar[bool] = False
    """Whether the node replaces weights or graphs; other nodes need no permission for ~/set_weights."""

    def __init__(self, name: str, *, cameras: Cameras | None = None, **options: Any) -> None:
        """`cameras`: shared with the other nodes of the executor, so that each image is taken once."""
        super().__init__(name, **options)
        self.algorithm: ImageAlgorithm
        self.counters: ImageCounters = ImageCounters()
        self._cameras = cameras or Cameras()
        self._client: ModelClient | None = None
        self._bound: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] | None = None
        """Inputs and outputs of the model that the algorithm is bound to; None if it is not bound."""
        self._problem = ""
        """Why the model that was loaded does not suit the algorithm; empty if it does."""
        self._image_size: tuple[int, int] | None = None
        """Width and height of the last image, px."""
        self._reported_lost = 0
        self._rate_limit = RateLimit()
        self._gate = NewestFrame[SharedImage](self._start)

    def start(self, algorithm: ImageAlgorithm) -> None:
        """Run this algorithm: load its model on the driver and subscribe to the images."""
        self.algorithm = algorithm
        algorithm.min_confidence = self.values["min_confidence"]
        algorithm.region = Region(*self.values["roi"])
        with self.destroyed_on_error():
            self._debug = DebugImages(self)
            self._client = self._client_for(self.model_to_load())
            self.subscribe()
            self.start_diagnostics()

    @property
    def model_name(self) -> str:
        """The model's name in log messages."""
        return str(self.values["model"] or self.algorithm.model)

    @abstractmethod
    def publish(self, header: Header, result: Any) -> None:
        """Publish a result under the header of its image."""

    @abstractmethod
    def draw(self, image: Pixels, result: Any) -> Pixels:
        """Draw a result onto a copy of its image, uint8 [H, W, 3] RGB."""

    def measuring_problems(self) -> list[str]:
        """Return the problems that keep this node from measuring images, a line each, for diagnostics."""
        return []

    def problems(self) -> list[str]:
        """Return the problems of driver, model, images and algorithm."""
        self.counters.dropped = self._gate.dropped
        self._watch.step(self.counters.received, self.counters.lost)
        problems = [self._client.problem if self._client else "", self._problem]
        problems.append(several_publishers(self, self._image_topic))
        if self.counters.received:
            problems += self.measuring_problems()
        lost, self._reported_lost = self.counters.lost - self._reported_lost, self.counters.lost
        if lost:
            problems.append(f"{lost} lost images")
        return [problem for problem in problems if problem]

    @property
    def needs_user(self) -> bool:
        """Whether the model cannot be loaded or run, or is unsuitable, until a user changes something."""
        return bool(self._problem) or (self._client is not None and self._client.needs_user)

    def name_for(self, model: str) -> str:
        """Name of a model on the driver; empty: nodes may share the model, weights included."""
        del model
        return ""

    def model_to_load(self) -> ModelFile:
        """Return the model to load, as the driver's load_model takes it."""
        return str(self.values["model"] or self.algorithm.model)

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Set the model of the algorithm; EdgeTpuError if it does not suit."""
        self.algorithm.bind(inputs, outputs)

    def prepare(self, image: CameraImage) -> None:
        """Set up the algorithm before it preprocesses an image."""

    def inputs_of(self, frame: PreparedFrame, stamp: float) -> Mapping[str, NDArray[Any]]:
        """Return all inputs of the model for a frame taken at `stamp`, s, by name."""
        del stamp
        return frame.inputs

    def on_outputs(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Take note of the outputs of the model, before the result is made from them."""

    def on_result(self, frame: Any) -> None:
        """Take note that the result of a frame has been published."""

    def replace_model(self, model: ModelFile) -> None:
        """Have the driver run another model for the following images."""
        if self._client is not None:
            self._client.close()
        self._bound = None
        self._client = self._client_for(model)

    def destroy_node(self) -> None:
        """Cancel the request under way and leave the graph."""
        self._cameras.leave(self)
        if self._client is not None:
            client, self._client = self._client, None
            client.close()
        super().destroy_node()

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply the new value of a parameter."""
        super().on_parameter(name, value)
        if name == "min_confidence":
            self.algorithm.min_confidence = value
        elif name == "roi":
            self.algorithm.region = Region(*value)
            self.forget_reports()

    def refuse_parameter(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Return why a value is refused: a `roi` that extends beyond the images."""
        if name == "roi" and self._image_size is not None:
            try:
                Region(*values["roi"]).within(*self._image_size)
            except ImageError as error:
                return str(error)
        return None

    def _client_for(self, model: ModelFile) -> ModelClient:
        return ModelClient(
            self,
            model,
            name=self.name_for(model) if isinstance(model, str) else "",
            driver=self.values["driver"],
            priority=Priority.REAL_TIME,
            deadline=self.values["deadline"],
            on_ready=self._on_model,
            sets_weights=self.changes_model,
        )

    def subscribe(self) -> None:
        """Subscribe to the images."""
        qos = subscription_qos(self.values)
        compressed = self.values["image_transport"] == "compressed"
        # As image_transport names it: the remapped base topic, then the transport.
        self._image_topic = self.resolve_topic_name("image") + ("/compressed" if compressed else "")
        self._cameras.listen_to_images(
            self, self._image_topic, compressed=compressed, qos=qos, listener=self._on_image
        )
        self._watch = MissingImages(
            self,
            self._image_topic,
            compressed=compressed,
            reliable=qos.reliability == ReliabilityPolicy.RELIABLE,
        )

    def _on_model(self) -> None:
        """Bind the algorithm to the model that was loaded, and process the image that waits."""
        assert self._client is not None
        specs = self._client.inputs, self._client.outputs
        try:
            # Binding resets the algorithm, which the same model after a restart of the driver does not
            # require.
            if specs != self._bound:
                self.bind(*specs)
        except EdgeTpuError as error:
            self._bound = None
            self._problem = f"model '{self.model_name}': {error}"
            self.get_logger().error(self._problem)
            return
        self._bound = specs
        self._problem = ""
        self._gate.resume()

    def _on_image(self, image: SharedImage, replaced: int) -> None:
        self.counters.received += 1 + replaced
        self.counters.lost += image.lost_before
        if self._rate_limit.skips(image.stamp, self.values["rate_limit"]):
            self.counters.limited += 1 + replaced
            return
        self._gate.offer(image, replaced)

    def _start(self, shared: SharedImage) -> bool:
        """Start to process an image; False if the model is not loaded yet."""
        if self._client is None or not self._client.ready or self._bound is None:
            return False
        try:
            image = shared.image
        except ImageError as error:
            self._on_malformed(error)
            self._gate.finished()
            return True
        try:
            self._image_size = image.width, image.height
            self._check_scale(shared, image)
            self.prepare(image)
            frame = self.algorithm.preprocess(image, shared.stamp)
            inputs = self.inputs_of(frame, shared.stamp)
        except Exception as error:
            self._on_failure(error)
            self._gate.finished()
            return True
        return shared.invoke(
            self._client,
            inputs,
            functools.partial(self._on_answer, shared, image, frame),
            self._is_newest,
            reset=self.begins_anew,
        )

    def _is_newest(self) -> bool:
        """Whether the image under way is still worth a result."""
        return not self._gate.has_newer

    def _check_scale(self, shared: SharedImage, image: CameraImage) -> None:
        """Report if the first image may come from a driver that passes 10 or 12 bits on as 16."""
        if not self.counters.results and shared.has_16_bits and image.pixels.max() <= _UNSCALED_WHITE:
            self.report_once(
                "scale",
                f"images on {self._image_topic} have 16 bits, and the first one is almost black: "
                "if the camera has 10 or 12 bits, have its driver scale them to 16 or publish mono8",
            )

    def _on_malformed(self, error: ImageError) -> None:
        self.skip_malformed(error.fault, str(error), f"malformed image on {self._image_topic}")

    def _on_answer(
        self, shared: SharedImage, image: CameraImage, frame: PreparedFrame, answer: InferenceResult
    ) -> None:
        """Make a result from the driver's answer."""
        if self._client is None:  # the node is being destroyed
            return
        if answer.error is None:
            try:
                self._on_outputs(shared.header, image, frame, answer.outputs)
            except Exception as error:
                self._on_failure(error)
        elif isinstance(answer.error, _DRIVER_GONE) and not isinstance(answer.error, ClientClosedError):
            # The client is about to load the model again; `_on_model` resumes then.
            self._client.failed_for_another(answer.error)
            self._gate.put_back(shared)
            return
        elif isinstance(answer.error, _TOO_LATE) and self._gate.has_newer:
            self._gate.put_back(shared)  # which counts it as dropped
            self._gate.resume()
            return
        else:
            self.counters.failed += 1
            self.get_logger().warning(f"inference failed: {answer.error}", throttle_duration_sec=5.0)
        self._gate.finished()

    def _on_outputs(
        self, header: Header, image: CameraImage, frame: PreparedFrame, outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        self.on_outputs(outputs)
        self.deliver(header, image, frame, self.algorithm.postprocess(frame, outputs))

    def deliver(self, header: Header, image: CameraImage, frame: Any, result: Any) -> None:
        """Publish the result of an image, count it, and draw it if the debug image has subscribers."""
        self.publish(header, result)
        self.counters.results += 1
        self.counters.valid += bool(result.valid)
        self.on_result(frame)
        if self._debug.wanted(self.values["debug_rate"]):
            picture = drawing.with_region(self.draw(image.pixels, result), self.algorithm.region)
            self._debug.publish(header, picture)

    def _on_failure(self, error: Exception) -> None:
        """Count an image that the algorithm cannot handle; it must not end the node."""
        self.counters.failed += 1
        kind = str(error) if isinstance(error, ImageError) else type(error).__name__
        self.report_once(kind, f"no result: {type(error).__name__}: {error}", error=True, counted=True)
