"""The base of all perception nodes: images in, a model run by the driver, results and diagnostics out."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from edgetpu_driver.errors import BusyError, EdgeTpuError, ExpiredError, ModelNotFoundError, UnavailableError
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.host.request_terms import Priority
from edgetpu_driver.node_kit.base_node import QOS_DEBUG, BaseNode
from edgetpu_driver.node_kit.deferred_service import QOS_SERVICE
from edgetpu_driver.node_kit.diagnostics import Counters
from edgetpu_driver.node_kit.driver_choice import driver_choice
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.model_client import ModelClient
from edgetpu_driver.node_kit.newest_frame import NewestFrame
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.tensor import TensorSpec
from edgetpu_driver.toolchain.model_files import default_model_dir
from edgetpu_msgs.srv import UnloadModel
from edgetpu_perception.algorithm import Frame, PerceptionAlgorithm
from edgetpu_perception.graphs import families as models
from edgetpu_perception.images.conversion_cache import CameraImage, Region
from edgetpu_perception.images.encodings import ImageError, Pixels
from edgetpu_perception.nodes.camera_calibration import Calibration
from edgetpu_perception.nodes.image_messages import message_from_rgb
from edgetpu_perception.nodes.image_subscriptions import Cameras, SharedImage
from edgetpu_perception.nodes.image_watch import ImageWatch
from edgetpu_perception.nodes.perception_parameters import perception_settings

_DRIVER_GONE = (ModelNotFoundError, UnavailableError)
_TOO_LATE = (BusyError, ExpiredError)


@dataclass
class ImageCounters(Counters):
    """What happened to the images since the node started."""

    valid: int = 0
    """Results that are valid."""
    limited: int = 0
    """Images skipped because of rate_limit."""
    lost: int = 0
    """Images that the camera has sent and that did not arrive."""


class PerceptionNode(BaseNode):
    """One perception algorithm as a node.

    A subclass calls `super().__init__(name)`, makes its publishers and its algorithm from `values`, and hands
    the algorithm to `start`. It publishes a result (`publish`) and draws it (`draw`).

    Everything happens in the executor's thread: an image is decoded and its model input sent to the driver,
    the answer comes back in a callback. Of the images that arrive meanwhile the newest waits; the others are
    counted as dropped.
    """

    settings: ClassVar[tuple[Setting, ...]] = perception_settings()
    subject = "images"

    changes_model: ClassVar[bool] = False
    """Whether the node replaces weights or graphs; others need no permission for ~/set_weights."""

    def __init__(self, name: str, *, cameras: Cameras | None = None, **options: Any) -> None:
        """`cameras`: shared with the other nodes of the executor, so that each image is taken once."""
        super().__init__(name, **options)
        self.algorithm: PerceptionAlgorithm[Any]
        self.counters: ImageCounters = ImageCounters()
        self._cameras = cameras or Cameras()
        self._client: ModelClient | None = None
        self._bound: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] | None = None
        self._mismatch_reported = False
        self._problem = ""
        self._replacement = ""
        self._image_size: tuple[int, int] | None = None
        """Width and height of the last image, px."""
        self._reported_lost = 0
        self._last_stamp: float | None = None
        self._calibration = Calibration(self.values["rectified"], self.values["horizontal_fov"])
        self._gate = NewestFrame[SharedImage](self._start)

    def start(self, algorithm: PerceptionAlgorithm[Any]) -> None:
        """Run this algorithm: load its model on the driver and subscribe to the images."""
        self.algorithm = algorithm
        algorithm.min_confidence = self.values["min_confidence"]
        algorithm.region = Region(*self.values["roi"])
        with self.destroyed_on_error():
            drivers = driver_choice(self, self.values["driver"]).names if self.changes_model else ()
            self._unload_clients = {
                driver: self.create_client(UnloadModel, f"{driver}/unload_model", qos_profile=QOS_SERVICE)
                for driver in drivers
            }
            self._debug = self.create_publisher(Image, "~/debug_image", QOS_DEBUG)
            self._client = self._client_for(self._model())
            self._subscribe()
            self.start_diagnostics()

    @abstractmethod
    def publish(self, header: Header, result: Any) -> None:
        """Publish a result under the header of its image."""

    @abstractmethod
    def draw(self, image: Pixels, result: Any) -> Pixels:
        """Draw a result onto a copy of its image, uint8 [H, W, 3] RGB."""

    def measuring_problems(self) -> list[str]:
        """Return what keeps this node from measuring the images that arrive, a line each, for diagnostics."""
        return []

    def problems(self) -> list[str]:
        """Return what is wrong with driver, model, camera and algorithm."""
        self.counters.dropped = self._gate.dropped
        self._watch.step(self.counters.received, self.counters.lost)
        problems = [self._client.problem if self._client else "", self._problem, self._calibration.problem]
        if self.counters.received:
            problems += self.measuring_problems()
        lost, self._reported_lost = self.counters.lost - self._reported_lost, self.counters.lost
        if lost:
            problems.append(f"{lost} lost images")
        return [problem for problem in problems if problem]

    def name_for(self, model: str) -> str:
        """Name of a model on the driver; empty: nodes may share the model, weights included."""
        del model
        return ""

    def run_model(self, name: str, graph: bytes) -> bool:
        """Have the driver run another graph from now on, written to the model directory under that name.

        For nodes with `changes_model`. Returns False, and does nothing, if it is the graph of the previous
        call; that one is unloaded otherwise. Raises OSError when the graph cannot be written.
        """
        if name == self._replacement:
            return False
        models.write_model(name, self._model_dir(), graph)
        assert self._client is not None
        driver, _ = self._client.target
        self._client.close()
        self._bound = None
        if self._replacement:
            self._unload(driver, self.name_for(self._replacement) or self._replacement)
        self._replacement = name
        self._client = self._client_for(name)
        return True

    def _unload(self, driver: str, name: str) -> None:
        """Have a driver forget a model; another node that still uses it has it loaded again."""
        client = self._unload_clients[driver]
        if client.service_is_ready():
            client.call_async(UnloadModel.Request(name=name, client=self.get_fully_qualified_name()))

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
            self.forget_complaints()

    def refuse_parameter(self, name: str, value: Any) -> str | None:
        """Return why a value is refused: a `roi` that extends beyond the images."""
        if name == "roi" and self._image_size is not None:
            try:
                Region(*value).within(*self._image_size)
            except ImageError as error:
                return str(error)
        return None

    def _client_for(self, model: str) -> ModelClient:
        return ModelClient(
            self,
            model,
            name=self.name_for(model),
            driver=self.values["driver"],
            priority=Priority.REAL_TIME,
            deadline=self.values["deadline"],
            on_ready=self._on_model,
            sets_weights=self.changes_model,
        )

    def _model(self) -> str:
        """Return the model to load; the suite's own graph is written to where the driver finds it."""
        if self.values["model"]:
            return str(self.values["model"])
        directory = self._model_dir()
        try:
            models.write_model(self.algorithm.model, directory)
        except OSError as error:
            raise FatalError(
                f"cannot write the model {self.algorithm.model} to {directory}: {error}"
            ) from error
        return self.algorithm.model

    def _model_dir(self) -> Path:
        return Path(self.values["model_dir"] or default_model_dir()).expanduser()

    def _subscribe(self) -> None:
        reliability = ReliabilityPolicy[self.values["qos_reliability"].upper()]
        qos = QoSProfile(depth=self.values["qos_depth"], reliability=reliability)
        compressed = self.values["image_transport"] == "compressed"
        # As image_transport names it: the remapped base topic, then the transport.
        self._image_topic = self.resolve_topic_name("image") + ("/compressed" if compressed else "")
        self._cameras.listen_to_images(
            self, self._image_topic, compressed=compressed, qos=qos, listener=self._on_image
        )
        self._watch = ImageWatch(
            self,
            self._image_topic,
            compressed=compressed,
            reliable=reliability == ReliabilityPolicy.RELIABLE,
        )
        info_topic = self.resolve_topic_name("camera_info")
        self._cameras.listen_to_camera_info(self, info_topic, self._on_camera_info)

    def _on_camera_info(self, info: CameraInfo) -> None:
        if self._calibration.update(info):
            self._mismatch_reported = False
            if self._calibration.problem:
                self.get_logger().warning(self._calibration.problem)

    def _on_model(self) -> None:
        """Bind the algorithm to the model that was loaded, and process the image that waits."""
        assert self._client is not None
        specs = self._client.inputs, self._client.outputs
        try:
            # Binding resets the algorithm, which the same model after a restart of the driver does not
            # require.
            if specs != self._bound:
                self.algorithm.bind(*specs)
        except EdgeTpuError as error:
            self._bound = None
            self._problem = f"model '{self._model_name()}': {error}"
            self.get_logger().error(self._problem)
            return
        self._bound = specs
        self._problem = ""
        self._gate.resume()

    def _model_name(self) -> str:
        return self.values["model"] or self.algorithm.model

    def _on_image(self, image: SharedImage, replaced: int) -> None:
        self.counters.received += 1 + replaced
        self.counters.lost += image.lost_before
        if self._too_early(image.stamp):
            self.counters.limited += 1 + replaced
            return
        self._gate.offer(image, replaced)

    def _too_early(self, stamp: float) -> bool:
        """Whether rate_limit skips this image; a stamp before the last resets the limit, 0 is no stamp."""
        limit, last = self.values["rate_limit"], self._last_stamp
        if not stamp:
            return False
        # The stamps of a camera at exactly this rate have some jitter.
        if limit > 0 and last is not None and 0 <= stamp - last < 0.95 / limit:
            return True
        self._last_stamp = stamp
        return False

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
            self.algorithm.camera = self._calibration.camera_for(image.width, image.height)
            frame = self.algorithm.preprocess(image, shared.stamp)
        except Exception as error:
            self._on_failure(error)
            self._gate.finished()
            return True
        return shared.invoke(
            self._client,
            frame.inputs,
            functools.partial(self._on_answer, shared, image, frame),
            self._is_newest,
        )

    def _is_newest(self) -> bool:
        """Whether the image under way is still worth a result."""
        return not self._gate.has_newer

    def _on_malformed(self, error: ImageError) -> None:
        self.counters.malformed += 1
        self.complain_once(error.fault, f"malformed image on {self._image_topic}, skipped: {error}")

    def _on_answer(
        self, shared: SharedImage, image: CameraImage, frame: Frame, answer: InferenceResult
    ) -> None:
        """Make a result of the driver's answer."""
        if self._client is None:  # the node is being destroyed
            return
        if answer.error is None:
            try:
                self._on_outputs(shared.header, image, frame, answer.outputs)
            except Exception as error:
                self._on_failure(error)
        elif isinstance(answer.error, _DRIVER_GONE) and not self._client.ready:
            # The client is about to load the model again; `_on_model` resumes then.
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
        self, header: Header, image: CameraImage, frame: Frame, outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        result = self.algorithm.postprocess(frame, outputs)
        self.publish(header, result)
        self.counters.results += 1
        self.counters.valid += bool(result.valid)
        self._check_size(frame)
        if self._debug.get_subscription_count():
            self._debug.publish(message_from_rgb(header, self.draw(image.pixels, result)))

    def _on_failure(self, error: Exception) -> None:
        """Count an image that the algorithm cannot handle; it must not end the node."""
        self.counters.failed += 1
        kind = str(error) if isinstance(error, ImageError) else type(error).__name__
        self.complain_once(kind, f"no result: {type(error).__name__}: {error}", error=True)

    def _check_size(self, frame: Frame) -> None:
        self._problem = self._calibration.mismatch(frame.image_width, frame.image_height)
        if self._problem and not self._mismatch_reported:
            self._mismatch_reported = True
            self.get_logger().warning(self._problem)
