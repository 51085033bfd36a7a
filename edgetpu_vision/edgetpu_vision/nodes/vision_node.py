"""The base of all vision nodes: an image node that runs a model that the user chooses."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray
from std_msgs.msg import Header
from vision_msgs.msg import LabelInfo, VisionClass

from edgetpu_driver.engines.whole_model.model import LONGEST_GAP
from edgetpu_driver.engines.whole_model.recurrence import State, feedback_of, likely_feedback
from edgetpu_driver.errors import EdgeTpuError, ModelUnsupportedError
from edgetpu_driver.images.region import Region
from edgetpu_driver.node_kit.clients.load_result import ModelFile
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.image_node import ImageNode, PreparedFrame
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_LATCHED
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_driver.tflite.weightless_files import weightless_files
from edgetpu_vision.algorithm import VisionAlgorithm
from edgetpu_vision.model_description.description import NO_DESCRIPTION, describe
from edgetpu_vision.nodes.suitable_node import with_suitable_node
from edgetpu_vision.nodes.vision_parameters import feedback_pairs, model_files, normalisation_of

_MOST_LABELS = 2**16 - 1
"""Classes that vision_msgs/VisionClass can number: the largest uint16 means no label."""


class VisionNode(ImageNode):
    """A node for one kind of vision model; see ImageNode for what a subclass does.

    A subclass makes its algorithms in `make_algorithms`, which is called again for every model and whenever a
    parameter in `rebuilt_by` changes, and calls `start_vision` instead of `start`.
    """

    algorithm: VisionAlgorithm[Any]

    rebuilt_by: ClassVar[tuple[str, ...]] = ("fit", "channel_order", "mean", "std", "input_range", "feedback")
    """Parameters that the constructor of the algorithm takes."""
    has_labels: ClassVar[bool] = True
    """Whether results name classes, so that the node has ~/labels."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._kind = name
        """Name of the executable; the node may have another one."""
        self._description = NO_DESCRIPTION
        self._described: tuple[str, ...] | None = None
        """Paths and digest of the files that were described."""
        self._state = State((), LONGEST_GAP)
        """Outputs of a recurrent model that are inputs of its next run."""
        with self.destroyed_on_error():
            self._labels = (
                self.create_publisher(LabelInfo, "~/labels", QOS_LATCHED) if self.has_labels else None
            )

    @abstractmethod
    def make_algorithms(self, values: Mapping[str, Any], **common: Any) -> Sequence[VisionAlgorithm[Any]]:
        """Make the algorithms for these values of the parameters; the first that suits the model runs.

        common: further arguments of their constructors. Raises EdgeTpuError for impossible values.
        """

    def class_names(self) -> Sequence[str]:
        """Return the names of the classes by number, for ~/labels; empty if they are unknown."""
        return self.algorithm.labels.names if self.algorithm.labels else ()

    def start_vision(self) -> None:
        """Make the algorithm, load its model on the driver and subscribe to the images.

        Raises FatalError if the algorithm cannot be made with these parameters.
        """
        with self.destroyed_on_error():
            try:
                algorithm = self._made(self.values)[0]
            except EdgeTpuError as error:
                raise FatalError(one_line(error)) from None
            self.start(algorithm)

    @property
    def model_name(self) -> str:
        """The model's name in log messages."""
        return ", ".join(model_files(self.values["model"]))

    def model_to_load(self) -> ModelFile:
        """Return the model to load, as the driver's load_model takes it."""
        files = model_files(self.values["model"])
        return files if len(files) > 1 else files[0]

    def inputs_of(self, frame: PreparedFrame, stamp: float) -> Mapping[str, NDArray[Any]]:
        """Return all inputs of the model for a frame, including those that are fed back from outputs."""
        if self._state.jumps(stamp):
            self.begins_anew = True
            self._state.reset()
        return {**frame.inputs, **self._state.inputs()} if self._state.feedback else frame.inputs

    def on_outputs(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Keep the outputs that are inputs of the next run."""
        self.begins_anew = False
        if self._state.feedback:
            self._state.keep(outputs)

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply the new value of a parameter."""
        super().on_parameter(name, value)
        if name == "model":
            self.forget_reports()
            self.replace_model(self.model_to_load())
        elif name in self.rebuilt_by:
            self._bound = None
            if self._client is not None and self._client.ready and not self._model_changes:
                self._on_model()
        elif name == "min_confidence":
            self._publish_labels()

    def refuse_parameter(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Return why a value is refused: with it the algorithm cannot be made or does not suit the model."""
        reason = super().refuse_parameter(name, values)
        if reason is not None or name not in self.rebuilt_by:
            return reason
        try:
            if self._bound is None or values["model"] != self.values["model"]:
                self._made(values)  # its model is not known yet
            else:
                self._fitting(values, *self._bound)
        except EdgeTpuError as error:
            return one_line(error)
        return None

    @property
    def _model_changes(self) -> bool:
        """Whether `model` has a new value that `on_parameter` has not passed to the client yet."""
        return self._client is not None and self._client.model != self.model_to_load()

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Set the model of the algorithm, without the inputs that are fed back from outputs."""
        self.algorithm, state = self._fitting(self.values, inputs, outputs)
        self._state = state
        for each in state.feedback:
            self.get_logger().info(
                f"output '{each.output.name}' is input '{each.input.name}' of the next run"
            )

    def _state_of(
        self, values: Mapping[str, Any], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> State:
        """The initial state of a recurrent model; InputError for impossible pairs."""
        pairs = feedback_pairs(values["feedback"])
        if not pairs and len(inputs) > 1:
            pairs = likely_feedback(inputs, outputs)
        return State(feedback_of(pairs, inputs, outputs), LONGEST_GAP)

    def _fitting(
        self, values: Mapping[str, Any], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> tuple[VisionAlgorithm[Any], State]:
        """The first algorithm that suits a model, bound to it, and the state of the model."""
        state = self._state_of(values, inputs, outputs)
        images = _without(inputs, state)
        *others, last = self._made(values)
        for algorithm in others:
            with contextlib.suppress(ModelUnsupportedError):
                algorithm.bind(images, outputs)
                return algorithm, state
        try:
            last.bind(images, outputs)
        except ModelUnsupportedError as error:
            reason = with_suitable_node(str(error), self._kind, images, outputs, self._description)
            raise ModelUnsupportedError(reason) from error
        return last, state

    def _made(self, values: Mapping[str, Any]) -> Sequence[VisionAlgorithm[Any]]:
        """The algorithms for these values, not bound to a model yet."""
        algorithms = self.make_algorithms(
            values,
            fit=values["fit"] or None,
            min_confidence=values["min_confidence"],
            channel_order=values["channel_order"],
            normalisation=normalisation_of(values),
            description=self._description,
        )
        for algorithm in algorithms:
            algorithm.region = Region(*values["roi"])
        return algorithms

    def _on_model(self) -> None:
        """Bind a new algorithm to the model that was loaded, and publish the names of its classes."""
        assert self._client is not None
        self.begins_anew = True
        if self._describe():
            self._bound = None
        # The base class resumes with the waiting image.
        super()._on_model()
        self._publish_labels()

    def _describe(self) -> bool:
        """Read the description of the model's files; returns whether the files have changed."""
        assert self._client is not None
        loaded = self._client.loaded
        identity = (*loaded.files, loaded.sha256)
        if identity == self._described:
            return False
        self._described = identity
        self._description = NO_DESCRIPTION
        try:
            if loaded.files_without_weights:
                self._description = describe(weightless_files(loaded.files_without_weights))
        except EdgeTpuError as error:
            self.get_logger().warning(
                f"cannot read the driver's description of model '{self.model_name}': its labels and anchors "
                f"are unknown: {one_line(error)}"
            )
        return True

    def _publish_labels(self) -> None:
        if self._labels is None or self._bound is None:
            return
        names = self.class_names()[:_MOST_LABELS]
        self._labels.publish(
            LabelInfo(
                header=Header(stamp=self.get_clock().now().to_msg()),
                class_map=[
                    VisionClass(class_id=index, class_name=name) for index, name in enumerate(names) if name
                ],
                threshold=float(self.values["min_confidence"]),
            )
        )


def _without(inputs: Sequence[TensorSpec], state: State) -> list[TensorSpec]:
    """The inputs that are not part of the state."""
    names = {each.input.name for each in state.feedback}
    return [spec for spec in inputs if spec.name not in names]
