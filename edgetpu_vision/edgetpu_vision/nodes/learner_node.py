"""The learner as a node: subscribes image, publishes ~/classification; services teach and forget classes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Header
from vision_msgs.msg import Classification, ObjectHypothesis

from edgetpu_driver.errors import EdgeTpuError, InputError, UnavailableError
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.encodings import Pixels
from edgetpu_driver.node_kit.base_node import fill_answer
from edgetpu_driver.node_kit.deferred_service import Respond, create_deferred_service
from edgetpu_driver.node_kit.dense_graph_files import MODEL_DIR
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_RESULTS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.node_kit.printable_text import counted
from edgetpu_driver.node_kit.result_topics import ResultTopic
from edgetpu_driver.node_kit.state_paths import KEEP_STATE, directory_setting, named_file
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_msgs.srv import Forget, Learn, ListClasses, LoadFile, SaveFile
from edgetpu_vision.algorithm import Frame
from edgetpu_vision.classification.classifications import Classifications
from edgetpu_vision.debug_images import classification_picture
from edgetpu_vision.embedding.embedder import Embedder
from edgetpu_vision.embedding.embedding import Embedding
from edgetpu_vision.learning.learner import nothing_known
from edgetpu_vision.learning.taught_classifier import METHODS
from edgetpu_vision.learning.taught_examples import TaughtExamples
from edgetpu_vision.nodes.layer_on_driver import LayerOnDriver, Question
from edgetpu_vision.nodes.lessons import Lessons
from edgetpu_vision.nodes.persistent_classes import PersistentClasses
from edgetpu_vision.nodes.result_rows import taught_row
from edgetpu_vision.nodes.vision_node import VisionNode
from edgetpu_vision.nodes.vision_parameters import OUTPUT, embedding_settings, max_results, vision_settings

PATIENCE = 5.0
"""Seconds for which the answer of ~/learn waits for the driver to have the new weights."""
_CHECK_PERIOD = 0.25
"""Seconds between two checks for lessons and answers that have waited too long."""

_SETTINGS = (
    OUTPUT,
    Setting(
        "method",
        "regression",
        "How classes are learned: softmax regression over all examples, or imprinting, the mean embedding of "
        "each class as its row.",
        choices=tuple(METHODS),
        read_only=False,
    ),
    max_results(5, "classes in a message"),
    Setting("capacity", 1000, "Maximum number of examples of all classes.", 1, 10000),
    MODEL_DIR,
    directory_setting("classes"),
    Setting(
        "pictures_directory",
        "",
        "Directory of the folders that ~/learn may read. Empty: edgetpu/pictures in $ROS_HOME or ~/.ros.",
    ),
    Setting("classes", "", "Name of a file of classes to start with. Empty: none."),
    KEEP_STATE,
)


class LearnerNode(VisionNode):
    """Publishes the most probable of the taught classes for each image, "unknown" among them."""

    algorithm: Embedder

    settings = vision_settings("mobilenet_v1_1.0_224_quant_embedding_extractor", 0.0, *_SETTINGS)
    results = ResultTopic("classification", Classification, (), row=taught_row)
    rebuilt_by = (*VisionNode.rebuilt_by, "output")
    has_labels = False
    changes_model = True  # the layer's model, whose client is made once something is taught

    def __init__(self, **options: Any) -> None:
        super().__init__("learner", **options)
        with self.destroyed_on_error():
            self._set_up()
        self.start_vision()

    def _set_up(self) -> None:
        self._kept = PersistentClasses(self)
        self._examples = self._kept.load() or self._examples_of_parameter()
        self._mismatch = ""
        """Why the examples cannot be used with the present model; empty if they can."""
        self._lessons = Lessons(self, self._new_embedder, self._without_model)
        self._finishing: list[tuple[float, Callable[[], None]]] = []
        """Answers that wait for the driver to have the new weights, with their deadlines."""
        self._head = LayerOnDriver(self, self.values["driver"], self.values["model_dir"])
        self._classification = self.create_publisher(Classification, "~/classification", QOS_RESULTS)
        create_deferred_service(self, Learn, "~/learn", self._on_learn)
        self.create_service(Forget, "~/forget", self._on_forget)
        self.create_service(ListClasses, "~/list_classes", self._on_list)
        self.create_service(SaveFile, "~/save_classes", self._on_save)
        self.create_service(LoadFile, "~/load_classes", self._on_load)
        self.create_steady_timer(_CHECK_PERIOD, self._check_deadlines)
        self._train()

    def _examples_of_parameter(self) -> TaughtExamples:
        """The examples in the file that the parameter `classes` names; empty without a file."""
        capacity, name = self.values["capacity"], self.values["classes"]
        if not name:
            return TaughtExamples(capacity)
        try:
            return TaughtExamples.load(self._file(name), capacity)
        except EdgeTpuError as error:
            raise FatalError(f"parameter 'classes': {error}") from None

    def make_algorithms(self, values: Mapping[str, Any], **common: Any) -> tuple[Embedder]:
        """Make the embedder for these values of the parameters."""
        return (Embedder(output=values["output"], **common),)

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Set the model, and check whether the examples are its embeddings."""
        super().bind(inputs, outputs)
        self._check_model()

    def measuring_problems(self) -> list[str]:
        """Return the problems that keep this node from recognising classes."""
        return [self._mismatch, self._head.problem]

    def on_parameter(self, name: str, value: Any) -> None:
        """Apply the new value of a parameter."""
        super().on_parameter(name, value)
        if name == "method":
            self._train()
        elif name == "model" or name in self.rebuilt_by:  # one class would get embeddings of both
            self._lessons.end(UnavailableError(f"the {name} was changed meanwhile"))

    def deliver(self, header: Header, image: CameraImage, frame: Frame, result: Any) -> None:
        """Take an embedding as an example if a lesson waits for one; then classify it."""
        embedding: Embedding = result
        if embedding.valid:
            self._lessons.show(embedding.vector)
        if self._head.classifier is None or self._mismatch or not embedding.valid:
            super().deliver(header, image, frame, nothing_known(frame.stamp))
            return
        self._head.classify(
            Question(
                embedding.vector,
                frame.stamp,
                self.values["max_results"],
                self.values["min_confidence"],
                partial(self._on_classified, header, image, frame),
            )
        )

    def publish(self, header: Header, result: Classifications) -> None:
        """Publish the result on ~/classification."""
        hypotheses = [
            ObjectHypothesis(class_id=each.label, score=float(each.score)) for each in result.classes
        ]
        self._classification.publish(Classification(header=header, results=hypotheses))

    def draw(self, image: Pixels, result: Classifications) -> Pixels:
        """Draw the labels and their scores."""
        return classification_picture(image, result)

    def destroy_node(self) -> None:
        """Cancel all work and leave the graph."""
        head: LayerOnDriver | None = getattr(self, "_head", None)  # the constructor may have failed before
        if head is not None:
            head.close()
            self._lessons.close()
        super().destroy_node()

    def _on_classified(
        self, header: Header, image: CameraImage, frame: Frame, found: Classifications | EdgeTpuError
    ) -> None:
        if self._client is None:  # the node is being destroyed
            return
        if isinstance(found, EdgeTpuError):
            self.counters.failed += 1
            self.get_logger().warning(f"not classified: {found}", throttle_duration_sec=5.0)
        else:
            super().deliver(header, image, frame, found)

    def _on_learn(self, request: Learn.Request, respond: Respond) -> None:
        try:
            self._lessons.begin(request, partial(self._end_lesson, request, respond))
        except EdgeTpuError as error:
            self._answer_learn(respond, 0, error)

    def _new_embedder(self) -> Embedder:
        """An embedder for pictures, bound to the present model; `roi` applies to the camera alone."""
        if self._bound is None:
            raise UnavailableError("the model is not loaded any more")
        embedder, state = self._fitting({**self.values, "roi": [0, 0, 0, 0]}, *self._bound)
        if state.feedback:
            raise InputError("expected a model without state to learn from pictures; got a recurrent one")
        assert isinstance(embedder, Embedder)
        return embedder

    def _end_lesson(
        self,
        request: Learn.Request,
        respond: Respond,
        vectors: Sequence[NDArray[np.float32]] | EdgeTpuError,
    ) -> None:
        """Keep the examples, and answer once they are in use; or answer with the error at once."""
        try:
            if isinstance(vectors, EdgeTpuError):
                raise vectors
            if self._mismatch:
                raise InputError(self._mismatch)
            self._examples.add(request.label, vectors, replace=request.replace)
        except EdgeTpuError as error:
            self._answer_learn(respond, 0, error)
            return
        assert self._client is not None
        # The hash is empty after a restart of the driver if a folder's client was faster than this one.
        self._examples.model = self._client.loaded.sha256 or self._examples.model
        self._examples.made_with = embedding_settings(self.values, Embedder.default_fit)
        self._kept.save(self._examples)
        answer = partial(self._answer_learn, respond, len(vectors))
        self._finishing.append((time.monotonic() + PATIENCE, partial(answer, in_use=False)))
        self._train(answer)

    def _without_model(self) -> str:
        """Why nothing can be learned; empty while the model is loaded."""
        if self._bound is not None:
            return ""
        return f"the model is not loaded: {self._client and self._client.problem}"

    def _train(self, usable: Callable[[], None] = lambda: None) -> None:
        self._head.learn(self._examples.at_present(), self.values["method"], usable)

    def _check_model(self) -> None:
        """Check whether the examples are embeddings of the present model."""
        self._mismatch = ""
        try:
            self._check(self._examples)
        except InputError as error:
            self._mismatch = str(error)
            self.get_logger().warning(self._mismatch)

    def _check(self, examples: TaughtExamples) -> None:
        """Raise InputError if examples are no embeddings of the present model; it must be loaded."""
        assert self._client is not None
        settings = embedding_settings(self.values, Embedder.default_fit)
        examples.check_model(self._client.loaded.sha256, self.algorithm.size, settings)

    def _check_deadlines(self) -> None:
        """End lessons that have waited too long, and answer those whose weights are still not set."""
        self._lessons.check()
        now = time.monotonic()
        overdue = [answer for until, answer in self._finishing if until < now]
        self._finishing = [each for each in self._finishing if each[0] >= now]
        for answer in overdue:
            answer()

    def _answer_learn(
        self, respond: Respond, added: int, error: EdgeTpuError | None = None, *, in_use: bool = True
    ) -> None:
        """Answer a call; further calls have no effect. in_use: whether images are classified with `added`."""
        message = self._calibration()
        if self._head.problem:
            message = f"not on the driver yet: {self._head.problem}"
        elif not in_use:
            message = "not in use yet: the layer is still being learned"
        response = fill_answer(Learn.Response(), error, self._with_save_problem(message))
        response.added = added
        response.classes, response.examples = len(self._examples.classes), len(self._examples)
        respond(response)

    def _with_save_problem(self, message: str) -> str:
        """Put the reason why a change was not saved, if there is one, before the message of its answer."""
        return "; ".join(each for each in (self._kept.problem, message) if each)

    def _calibration(self) -> str:
        """How "unknown" is distinguished from the classes, as text."""
        if self._head.classifier is None:
            return ""
        familiarity = self._head.classifier.familiarity
        return (
            f"unknown below a cosine of {familiarity.threshold:.2f}, from {familiarity.known} similarities "
            f"of known images, {familiarity.unknown} of unknown ones, and typical values"
        )

    def _on_forget(self, request: Forget.Request, response: Forget.Response) -> Forget.Response:
        try:
            response.removed = self._examples.forget(request.label)
        except EdgeTpuError as error:
            fill_answer(response, error)
        else:
            self._examples_changed()
            fill_answer(response, None, self._with_save_problem(""))
        response.classes, response.examples = len(self._examples.classes), len(self._examples)
        return response

    def _on_list(self, _request: ListClasses.Request, response: ListClasses.Response) -> ListClasses.Response:
        counts = self._examples.classes
        response.labels, response.examples = list(counts), list(counts.values())
        response.dimension = self._examples.dimension
        if self._head.classifier is not None:
            familiarity = self._head.classifier.familiarity
            response.threshold = familiarity.threshold
            response.known, response.unknown = familiarity.known, familiarity.unknown
        return fill_answer(response, None, self._mismatch or self._calibration())

    def _on_save(self, request: SaveFile.Request, response: SaveFile.Response) -> SaveFile.Response:
        try:
            path = self._file(request.name)
            self._examples.save(path)
        except EdgeTpuError as error:
            return fill_answer(response, error)
        response.path = str(path)
        return fill_answer(response, None, counted(len(self._examples), "example"))

    def _on_load(self, request: LoadFile.Request, response: LoadFile.Response) -> LoadFile.Response:
        try:
            path = self._file(request.name)
            examples = TaughtExamples.load(path, self.values["capacity"])
            if self._bound is not None:
                self._check(examples)
        except EdgeTpuError as error:
            return fill_answer(response, error)
        self._examples = examples
        self._examples_changed()
        response.path = str(path)
        return fill_answer(response, None, self._with_save_problem(counted(len(examples), "example")))

    def _examples_changed(self) -> None:
        self._kept.save(self._examples)
        if self._bound is not None:
            self._check_model()
        self._train()

    def _file(self, name: str) -> Path:
        return named_file(self.values["directory"], "classes", name)
