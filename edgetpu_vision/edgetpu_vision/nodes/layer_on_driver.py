"""The layer of the learner on a driver: trained in a separate thread, then loaded into a Dense model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, UnavailableError
from edgetpu_driver.host.background_thread import BackgroundThread
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.clients.matmul_in_progress import ProductResult
from edgetpu_driver.node_kit.clients.matrix_client import RETRY_PERIOD, MatrixClient
from edgetpu_driver.node_kit.dense_graph_files import provide_model
from edgetpu_driver.node_kit.executor.executor_calls import executor_calls
from edgetpu_driver.node_kit.executor.work_queue import WorkQueue
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.toolchain import dense_graph as dense
from edgetpu_vision.classification.classifications import Classifications
from edgetpu_vision.learning.layer_as_dense_model import HEADROOM, head_size
from edgetpu_vision.learning.taught_classifier import TaughtClassifier
from edgetpu_vision.learning.taught_examples import ExampleSet

WAITING_VECTORS = 2
"""Number of embeddings that wait, for example while weights are set, before the oldest is dropped."""


@dataclass(frozen=True, eq=False)
class Question:
    """An embedding to classify."""

    vector: NDArray[np.float32]
    """Unit vector, [dimension]."""
    stamp: float
    """Stamp of its image, s."""
    max_results: int
    min_confidence: float
    done: Callable[[Classifications | EdgeTpuError], None]


class LayerOnDriver:
    """The learned layer, on a driver.

    All calls and callbacks are in the executor's thread; the layer is trained in a separate thread. Until it
    is trained and its weights are set, the previous layer is used.
    """

    def __init__(self, node: BaseNode, driver: str | Sequence[str], model_dir: str) -> None:
        """model_dir: directory to which the graph of the Dense model is written."""
        self._node, self._driver, self._model_dir = node, driver, model_dir
        self._thread = BackgroundThread(f"{node.get_name()} learning")
        self._latest = 0
        """Number of the last call of `learn`."""
        self._client: MatrixClient | None = None
        self._size = 0
        self._trouble = ""
        """Why there is no model for the layer; empty if there is one."""
        self._queue = WorkQueue[Question](self._start, WAITING_VECTORS, self._drop)
        self._set_number = 0
        """Number of the call of `learn` whose matrix the driver was given last."""
        self._when_usable: list[tuple[int, Callable[[], None]]] = []
        """Callbacks that wait, each with the number of its call of `learn`."""
        self.classifier: TaughtClassifier | None = None
        """The classifier learned last; None without examples."""
        node.create_steady_timer(RETRY_PERIOD, self._queue.resume)

    @property
    def problem(self) -> str:
        """Why nothing can be classified, one line; empty if no problem is known."""
        if self.classifier is None or self._client is None:
            return self._trouble
        return self._client.problem

    def learn(self, examples: ExampleSet, method: str, usable: Callable[[], None]) -> None:
        """Replace the examples; `usable` is called once the layer of this or a later call can be used."""
        self._latest += 1
        self._when_usable.append((self._latest, usable))
        if not examples.labels:
            self.classifier = None
            self._notify_usable(self._latest)
            return
        size = head_size(examples.vectors.shape[1])
        self._thread.submit(partial(self._learn, self._latest, examples, method, size))

    def classify(self, question: Question) -> None:
        """Classify an embedding; `done` gets the result or the error, once."""
        self._queue.offer(question)

    def close(self) -> None:
        """Stop looking for the driver; a product in progress ends with an error."""
        self._latest += 1
        if self._client is not None:
            self._client.close()

    def _learn(self, number: int, examples: ExampleSet, method: str, size: int) -> None:
        """Train the layer, in the separate thread, unless there are newer examples already."""
        if number == self._latest:
            classifier = TaughtClassifier.of(examples, method, size)
            executor_calls(self._node).add(partial(self._use, number, classifier, size))

    def _use(self, number: int, classifier: TaughtClassifier, size: int) -> None:
        """Have the driver multiply by the learned matrix."""
        if number != self._latest:
            return
        if self._client is None or size != self._size:
            if self._client is not None:
                self._client.close()
                self._client = None
            model, self._size, self._trouble = dense.name(size), size, ""
            try:
                provide_model(model, self._model_dir)
            except FatalError as error:  # the node continues: a service call may load other classes
                self._trouble, self.classifier = str(error), None
                self._notify_usable(number)
                return
            self._client = MatrixClient(
                self._node,
                model,
                name=f"{self._node.full_name}/{model}",
                driver=self._driver,
                headroom=HEADROOM,
                on_ready=self._on_ready,
            )
        self.classifier, self._set_number = classifier, number
        self._client.set_matrix(classifier.head.matrix)

    def _on_ready(self) -> None:
        self._notify_usable(self._set_number)
        self._queue.resume()

    def _notify_usable(self, number: int) -> None:
        """Call back those of the calls of `learn` up to this one."""
        waiting, self._when_usable = self._when_usable, []
        self._when_usable = [each for each in waiting if each[0] > number]
        for of_call, usable in waiting:
            if of_call <= number:
                usable()

    def _start(self, question: Question) -> bool:
        """Begin to classify; False if the weights have to be set first."""
        if self.classifier is None or self._client is None:
            return self._end(question, UnavailableError("nothing has been taught yet"))
        if self._client.problem:
            return self._end(question, self._client.refusal or UnavailableError(self._client.problem))
        inputs = self.classifier.head.inputs(question.vector)
        return self._client.multiply(inputs, partial(self._on_product, question, self.classifier))

    def _on_product(self, question: Question, classifier: TaughtClassifier, result: ProductResult) -> None:
        if result.product is None:
            assert result.error is not None
            self._end(question, result.error)
            return
        found = classifier.classify(
            question.vector,
            result.product.outputs,
            question.stamp,
            question.max_results,
            question.min_confidence,
        )
        self._end(question, found)

    def _end(self, question: Question, found: Classifications | EdgeTpuError) -> bool:
        try:
            question.done(found)
        except Exception as error:  # which must not hold up the embeddings that follow
            self._node.on_callback_failure("classification", error)
        self._queue.finished()
        return True

    def _drop(self, question: Question) -> None:
        self._node.counters.dropped += 1
        question.done(UnavailableError(f"more than {WAITING_VECTORS} embeddings wait for the driver"))
