"""The base of all perception nodes: image nodes with the suite's graphs and the camera's calibration."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from rclpy.client import Client
from rclpy.task import Future
from sensor_msgs.msg import CameraInfo

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.files.default_paths import default_model_dir
from edgetpu_driver.files.file_access import user_path
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.node_kit.clients.driver_choice import driver_choice
from edgetpu_driver.node_kit.clients.load_result import ModelFile
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.image_node import ImageNode
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.several_publishers import several_publishers
from edgetpu_msgs.srv import UnloadModel
from edgetpu_perception.algorithm import Frame, PerceptionAlgorithm
from edgetpu_perception.graphs import families as models
from edgetpu_perception.nodes.camera_calibration import Calibration
from edgetpu_perception.nodes.perception_parameters import perception_settings

STILL_STAMPS = 3
"""Images in a row with one stamp that are a problem. Uncritical: no camera sends an image so often."""


class PerceptionNode(ImageNode):
    """One perception algorithm as a node; see ImageNode for what a subclass does."""

    settings: ClassVar[tuple[Setting, ...]] = perception_settings()

    needs_stamps: ClassVar[bool] = False
    """Whether results are not valid unless the stamps of the images advance."""

    algorithm: PerceptionAlgorithm[Any]

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._size_mismatch = ""
        """Why the calibration does not fit the last image; empty if it does."""
        self._stamp = math.nan
        """Stamp of the last image with a result, s."""
        self._with_this_stamp = 0
        """Images in a row that have this stamp."""
        self._replacement = ""
        self._unloading: tuple[Client, Future] | None = None
        """The last request to unload a model."""
        self._calibration = Calibration(self.values["rectified"], self.values["horizontal_fov"])

    def start(self, algorithm: PerceptionAlgorithm[Any]) -> None:  # type: ignore[override]
        """Run this algorithm: load its model on the driver, subscribe to the images and to camera_info."""
        with self.destroyed_on_error():
            drivers = driver_choice(self, self.values["driver"]).names if self.changes_model else ()
            self._unload_clients = {
                driver: self.create_client(UnloadModel, f"{driver}/unload_model") for driver in drivers
            }
        super().start(algorithm)

    def problems(self) -> list[str]:
        """Return what is wrong with driver, model, images, algorithm and calibration."""
        own = (
            self._size_mismatch,
            self._calibration.problem,
            several_publishers(self, self._info_topic),
        )
        return super().problems() + [problem for problem in own if problem]

    def measuring_problems(self) -> list[str]:
        """Return a problem if the stamps of the images stand still, where the results need them."""
        return [problem] if (problem := self._stamp_problem()) else []

    def run_model(self, name: str) -> bool:
        """Have the driver run another graph from now on: the one of that name in the model directory.

        For nodes with `changes_model`. Returns False and does nothing if it is the graph of the previous
        call; otherwise the previous one is unloaded.
        """
        if name == self._replacement:
            return False
        assert self._client is not None
        driver, _ = self._client.target
        self._replacement, before = name, self._replacement
        self.replace_model(name)
        if before:
            self._unload(driver, self.name_for(before) or before)
        return True

    def model_to_load(self) -> ModelFile:
        """Return the model to load; the suite's own graph is written to where the driver finds it.

        FatalError if it cannot be written.
        """
        if self.values["model"]:
            return super().model_to_load()
        try:
            self.provide_graph(self.algorithm.model)
        except EdgeTpuError as error:
            raise FatalError(str(error)) from error
        return self.algorithm.model

    def provide_graph(self, name: str) -> None:
        """Write one of the suite's own graphs to where the driver finds it; EdgeTpuError if that fails."""
        directory = user_path(self.values["model_dir"] or default_model_dir())
        try:
            models.write_model(name, directory)
        except OSError as error:
            reason = error.strerror or error
            raise EdgeTpuError(f"cannot write the model {name} to {directory}: {reason}") from error

    def prepare(self, image: CameraImage) -> None:
        """Tell the algorithm the camera of an image."""
        self.algorithm.camera = self._calibration.camera_for(image.width, image.height)

    def on_result(self, frame: Frame) -> None:
        """Report, once, that the calibration is for images of another size, and that stamps stand still."""
        self._with_this_stamp = self._with_this_stamp + 1 if frame.stamp == self._stamp else 1
        self._stamp = frame.stamp
        if problem := self._stamp_problem():
            self.report_once("stamps", problem)
        self._size_mismatch = self._calibration.mismatch(frame.image_width, frame.image_height)
        camera = self._calibration.camera
        if self._size_mismatch and camera is not None:
            self.report_once((camera.width, camera.height), self._size_mismatch)

    def _stamp_problem(self) -> str:
        if not self.needs_stamps or self._with_this_stamp < STILL_STAMPS:
            return ""
        what = f"are all {self._stamp:g} s" if self._stamp else "are missing"
        return f"the stamps of the images {what}; without them no result is valid"

    def subscribe(self) -> None:
        """Subscribe to the images and to camera_info."""
        super().subscribe()
        self._info_topic = self.resolve_topic_name("camera_info")
        self._cameras.listen_to_camera_info(self, self._info_topic, self._on_camera_info)

    def _on_camera_info(self, info: CameraInfo) -> None:
        if self._calibration.update(info) and self._calibration.problem:
            # Two cameras on one topic alternate with every image.
            self.report_once(self._calibration.problem, self._calibration.problem)

    def _unload(self, driver: str, name: str) -> None:
        """Unload a model from a driver; another node that still uses it loads it again."""
        if self._unloading is not None:
            before, unanswered = self._unloading
            before.remove_pending_request(unanswered)  # if the driver has ended, no answer removes it
            self._unloading = None
        client = self._unload_clients[driver]
        if client.service_is_ready():
            request = UnloadModel.Request(name=name, client=self.get_fully_qualified_name())
            self._unloading = client, client.call_async(request)
