"""What all perception nodes share: images in, a model run by the driver, results and diagnostics out."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from numpy.typing import NDArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from edgetpu_driver.errors import EdgeTpuError, ModelNotFoundError, UnavailableError
from edgetpu_driver.host.inference_result import InferenceResult
from edgetpu_driver.node_kit.model_client import ModelClient
from edgetpu_driver.node_kit.newest_frame import NewestFrame
from edgetpu_driver.node_kit.parameters import Setting, declare
from edgetpu_driver.node_kit.spin import FatalError
from edgetpu_driver.nodes.driver_parameters import default_model_dir
from edgetpu_driver.tensor import TensorSpec
from edgetpu_msgs.srv import UnloadModel
from edgetpu_perception.algorithm import Frame, PerceptionAlgorithm
from edgetpu_perception.graphs import families as models
from edgetpu_perception.images.conversion_cache import CameraImage, Region
from edgetpu_perception.images.encodings import ImageError, ImageFault, Pixels
from edgetpu_perception.nodes import perception_parameters as eye_settings
from edgetpu_perception.nodes.camera_calibration import Calibration
from edgetpu_perception.nodes.image_messages import message_from_rgb
from edgetpu_perception.nodes.perception_diagnostics import Counters, diagnostic
from edgetpu_perception.nodes.shared_images import Cameras, SharedImage

try:
    from rclpy.event_handler import PublisherEventCallbacks
except ImportError:  # ROS 2 Humble
    from rclpy.qos_event import PublisherEventCallbacks

DIAGNOSTICS_PERIOD = 1.0
"""Seconds; REP-107 asks for 1 Hz."""

FIRST_IMAGE = 10.0
"""Seconds after the start without any image that are worth a word in the log."""

_NO_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)

QOS_RESULTS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)

QOS_DEBUG = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
"""Reliable, since viewers ask for that unless told otherwise."""

_DRIVER_GONE = (ModelNotFoundError, UnavailableError)


class PerceptionNode(Node):
    """One algorithm as a node.

    A subclass makes its algorithm and its publishers from the parameters (`make_algorithm`), publishes a
    result (`publish`) and draws it (`draw`). Everything happens in the executor's thread: an image is decoded
    and its model input sent to the driver, the answer comes back in a callback; of the images that come
    meanwhile the newest waits and the others count as dropped.
    """

    def __init__(
        self,
        name: str,
        settings: Sequence[Setting] = (),
        *,
        cameras: Cameras | None = None,
        **options: Any,
    ) -> None:
        """`cameras`: shared with the other nodes of the executor, so that each image is taken once."""
        super().__init__(name, **options)
        self._cameras = cameras or Cameras()
        self._client: ModelClient | None = None
        try:
            own = {setting.name for setting in settings}
            common = (setting for setting in eye_settings.SETTINGS if setting.name not in own)
            self.values = declare(self, (*common, *settings), self._on_parameter)
            self.algorithm = self.make_algorithm()
            self.algorithm.min_confidence = self.values["min_confidence"]
            self.algorithm.region = Region(*self.values["roi"])
            self._create_interfaces()
        except BaseException:
            self.destroy_node()
            raise

    def create_publisher(self, *arguments: Any, **options: Any) -> Publisher:
        """Make a publisher as Node does, without callbacks for events.

        By default it would warn of readers that ask for more than it offers, who are told so themselves;
        and each callback is one more thing to wait for between two images.
        """
        return super().create_publisher(*arguments, **{"event_callbacks": _NO_EVENTS, **options})

    @abstractmethod
    def make_algorithm(self) -> PerceptionAlgorithm[Any]:
        """Make the algorithm, and the publishers for its results, from `values`."""

    @abstractmethod
    def publish(self, header: Header, result: Any) -> None:
        """Publish a result under the header of its image."""

    @abstractmethod
    def draw(self, image: Pixels, result: Any) -> Pixels:
        """Draw a result onto a copy of its image, RGB."""

    def problems(self) -> list[str]:
        """Say what else keeps this node from measuring the images that come, a line each, for diagnostics."""
        return []

    def name_for(self, model: str) -> str:
        """What the driver is to call a model; empty: it may share the model among nodes, weights and all."""
        del model
        return ""

    def run_model(self, name: str, graph: bytes) -> None:
        """Have the driver run another graph, put into the model directory under that name, from now on.

        The one of the call before is unloaded. Raises OSError when the graph cannot be written.
        """
        if name == self._replacement:
            return
        models.write_model(name, self._model_dir(), graph)
        assert self._client is not None
        self._client.close()
        self._bound = None
        if self._replacement and self._unload_model.service_is_ready():
            # Another node that still uses it has it loaded again.
            self._unload_model.call_async(
                UnloadModel.Request(name=self.name_for(self._replacement) or self._replacement)
            )
        self._replacement = name
        self._client = self._client_for(name)

    def destroy_node(self) -> None:
        """End the request under way and leave the graph."""
        self._cameras.leave(self)
        if self._client is not None:
            client, self._client = self._client, None
            client.close()
        super().destroy_node()

    def _create_interfaces(self) -> None:
        self._counters, self._reported_counters = Counters(), Counters()
        self._faults: set[ImageFault] = set()
        self._failures: set[type[Exception]] = set()
        self._bound: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]] | None = None
        self._mismatch_reported = False
        self._problem = ""
        self._replacement = ""
        self._unload_model = self.create_client(UnloadModel, f"{self.values['driver']}/unload_model")
        self._last_stamp: float | None = None
        self._calibration = Calibration(self.values["rectified"], self.values["horizontal_fov"])
        self._gate = NewestFrame[SharedImage](self._start)
        self._debug = self.create_publisher(Image, "~/debug_image", QOS_DEBUG)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 1)
        # Whether images come is a matter of real time, also when the graph runs on simulated time.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(DIAGNOSTICS_PERIOD, self._publish_diagnostics, clock=steady)
        self._patience = self.create_timer(FIRST_IMAGE, self._miss_images, clock=steady)
        self._client = self._client_for(self._model())
        self._subscribe()

    def _client_for(self, model: str) -> ModelClient:
        return ModelClient(
            self, model, name=self.name_for(model), driver=self.values["driver"], on_ready=self._on_model
        )

    def _model(self) -> str:
        """What the driver is to load; the suite's own graph is put where the driver finds it."""
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
        info_topic = self.resolve_topic_name("camera_info")
        self._cameras.listen_to_camera_info(self, info_topic, self._on_camera_info)

    def _on_parameter(self, name: str, value: Any) -> None:
        self.values[name] = value
        if name == "min_confidence":
            self.algorithm.min_confidence = value
        elif name == "roi":
            self.algorithm.region = Region(*value)

    def _on_camera_info(self, info: CameraInfo) -> None:
        if self._calibration.update(info):
            self._mismatch_reported = False
            if self._calibration.problem:
                self.get_logger().warning(self._calibration.problem)

    def _on_model(self) -> None:
        """Learn what the driver has loaded, and work on the image that waited for it."""
        assert self._client is not None
        specs = self._client.inputs, self._client.outputs
        try:
            # An algorithm that is bound again begins anew; the same model after a restart is no reason to.
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
        self._counters.images += 1 + replaced
        if self._too_early(image.stamp):
            self._counters.limited += 1 + replaced
            return
        self._gate.offer(image, replaced)

    def _too_early(self, stamp: float) -> bool:
        """Whether rate_limit leaves this image out; a stamp that goes back starts anew, 0 is no stamp."""
        limit, last = self.values["rate_limit"], self._last_stamp
        if not stamp:
            return False
        # A camera at just this rate has some jitter in its stamps.
        if limit > 0 and last is not None and 0 <= stamp - last < 0.95 / limit:
            return True
        self._last_stamp = stamp
        return False

    def _start(self, shared: SharedImage) -> bool:
        """Begin the work on an image; False when there is nobody yet to run the model."""
        if self._client is None or not self._client.ready or self._bound is None:
            return False
        try:
            image = shared.image
        except ImageError as error:
            self._on_malformed(error)
            self._gate.finished()
            return True
        self.algorithm.camera = self._calibration.camera_for(image.width, image.height)
        try:
            frame = self.algorithm.preprocess(image, shared.stamp)
        except Exception as error:
            self._on_failure(error)
            self._gate.finished()
            return True
        return shared.invoke(
            self._client, frame.inputs, functools.partial(self._on_answer, shared, image, frame)
        )

    def _on_malformed(self, error: ImageError) -> None:
        self._counters.malformed += 1
        if error.fault not in self._faults:
            self._faults.add(error.fault)
            self.get_logger().warning(
                f"malformed image on {self._image_topic}, skipped: {error}. "
                "Further ones of this kind are only counted, in /diagnostics."
            )

    def _on_answer(
        self, shared: SharedImage, image: CameraImage, frame: Frame, answer: InferenceResult
    ) -> None:
        """Make a result of what the driver answered."""
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
        else:
            self._counters.failed += 1
            self.get_logger().warning(f"inference failed: {answer.error}", throttle_duration_sec=5.0)
        self._gate.finished()

    def _on_outputs(
        self, header: Header, image: CameraImage, frame: Frame, outputs: Mapping[str, NDArray[Any]]
    ) -> None:
        result = self.algorithm.postprocess(frame, outputs)
        self.publish(header, result)
        self._counters.results += 1
        self._counters.valid += bool(result.valid)
        self._check_size(frame)
        if self._debug.get_subscription_count():
            self._debug.publish(message_from_rgb(header, self.draw(image.pixels, result)))

    def _on_failure(self, error: Exception) -> None:
        """One image that the algorithm cannot handle must not end the node."""
        self._counters.failed += 1
        if type(error) not in self._failures:
            self._failures.add(type(error))
            self.get_logger().error(
                f"no result: {type(error).__name__}: {error}. "
                "Further ones of this kind are only counted, in /diagnostics."
            )

    def _check_size(self, frame: Frame) -> None:
        self._problem = self._calibration.mismatch(frame.image_width, frame.image_height)
        if self._problem and not self._mismatch_reported:
            self._mismatch_reported = True
            self.get_logger().warning(self._problem)

    def _miss_images(self) -> None:
        """Say once, where people look first, that there is nothing to see."""
        self.destroy_timer(self._patience)  # else it would be waited for between any two images
        if not self._counters.images:
            self.get_logger().warning(f"no images on {self._image_topic} for {FIRST_IMAGE:.0f} s")

    def _publish_diagnostics(self) -> None:
        self._counters.dropped = self._gate.dropped
        problems = [self._client.problem if self._client else "", self._problem, self._calibration.problem]
        if self._counters.images:
            problems += self.problems()
        status = diagnostic(
            f"{self.get_fully_qualified_name().lstrip('/')}: images",
            self._counters,
            self._reported_counters,
            [problem for problem in problems if problem],
        )
        self._reported_counters = self._counters.copy()
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)
