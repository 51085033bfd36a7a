"""The learner: classes taught by examples, on an embedding model and a Dense layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.protocol import SwappableEngine
from edgetpu_driver.errors import InputError
from edgetpu_driver.matrix import product_passes
from edgetpu_driver.matrix.dense_model import DenseModel
from edgetpu_driver.matrix.engine_tiles import EngineTiles
from edgetpu_driver.matrix.tile_plan import MatrixPlan, PlanOptions, make_plan
from edgetpu_vision.algorithm import ImageLike, ModelLike
from edgetpu_vision.class_selection import check_max_results, check_share
from edgetpu_vision.classification.classifications import Classification, Classifications
from edgetpu_vision.embedding.embedder import Embedder
from edgetpu_vision.learning.layer_as_dense_model import HEADROOM, head_size
from edgetpu_vision.learning.picture_folder import pictures_in, read_picture
from edgetpu_vision.learning.taught_classifier import METHODS, UNKNOWN_NUMBER, TaughtClassifier
from edgetpu_vision.learning.taught_examples import UNKNOWN, TaughtExamples


class Learner:
    """Classifies images by examples that it was shown; images of anything else are "unknown".

        learner = Learner("mobilenet_v1_1.0_224_quant_embedding_extractor.tflite")
        learner.learn("mug", [image, another])
        learner.learn("door", [third])
        learner.update(image).classes[0].label  # "mug"

    Calls come from one thread.
    """

    def __init__(
        self,
        model: ModelLike,
        *,
        head: SwappableEngine | None = None,
        method: str = "regression",
        max_results: int = 5,
        min_confidence: float = 0.0,
        capacity: int = 1000,
        **options: Any,
    ) -> None:
        """Prepare a learner without any class.

        model: computes embeddings of images; the options are those of Embedder. head: an engine with a Dense
        model, whose weights the learner sets; None: the suite's own, on the CPU. method: "regression" or
        "imprinting". max_results: largest number of classes in a result. min_confidence: their least score,
        0..1. capacity: largest number of examples.

        Raises InputError for another method, a max_results below 1 and a min_confidence that is not from 0 to
        1, and what Embedder and DenseModel.of_engine raise.
        """
        if method not in METHODS:
            raise InputError(f"expected a method of {', '.join(METHODS)}; got '{method}'")
        check_max_results(max_results)
        check_share("min_confidence", min_confidence)
        self._embedder = Embedder(model, **options)
        engine = head or _cpu_engine(head_size(self._embedder.size))
        self._dense = DenseModel.of_engine(engine)
        self._tiles = EngineTiles([engine])
        self._plan: MatrixPlan | None = None
        self._classifier: TaughtClassifier | None = None
        self.examples = TaughtExamples(capacity)
        """The examples; call `train` after changing them."""
        self.method, self.max_results, self.min_confidence = method, max_results, min_confidence

    @property
    def classifier(self) -> TaughtClassifier | None:
        """The classifier that was learned; None while nothing has been taught."""
        return self._classifier

    def embed(self, image: ImageLike) -> NDArray[np.float32]:
        """The unit vector of an image, float32 [dimension].

        Raises InputError for an image whose vector has no direction, and what
        Embedder.update raises.
        """
        embedding = self._embedder.update(image)
        if not embedding.valid:
            raise InputError("expected an image that gives an embedding; the model's output is all zeros")
        return embedding.vector

    def learn(self, label: str, images: Sequence[ImageLike], *, replace: bool = False) -> None:
        """Take images, uint8 [H, W] or [H, W, 3] RGB, as examples of a class, which `update` then recognises.

        replace: forget the earlier examples of the class. Raises InputError for a single image, and what
        TaughtExamples.add, `embed` and `train` raise; nothing has changed then, unless the device has failed.
        """
        if isinstance(images, np.ndarray) and (images.ndim < 3 or images.shape[2:] == (3,)):
            raise InputError(f"expected a list of images; got one of shape {list(images.shape)}")
        self._learn(label, [self.embed(image) for image in images], replace)

    def learn_folder(self, label: str, folder: str | Path, *, replace: bool = False) -> int:
        """Take all pictures in a folder as examples of a class, and return how many there were.

        Raises InputError for a folder without pictures or with more than `capacity`, and for a picture that
        is damaged or cannot be read, and what `learn` raises.
        """
        paths = pictures_in(folder, self.examples.capacity)
        self._learn(label, [self.embed(read_picture(path)) for path in paths], replace)
        return len(paths)

    def forget(self, label: str) -> int:
        """Forget a class and return its number of examples; UnknownClassError for an unknown label."""
        forgotten = self.examples.forget(label)
        self.train()
        return forgotten

    def train(self) -> None:
        """Learn from the examples, and load the layer into its engine. Raises DeviceError."""
        if not len(self.examples):
            self._classifier = self._plan = None
            return
        classifier = TaughtClassifier.of(self.examples.at_present(), self.method, self._dense.columns)
        plan = make_plan(classifier.head.matrix, self._dense, PlanOptions(headroom=HEADROOM))
        self._tiles.hold(plan)
        self._classifier, self._plan = classifier, plan

    def update(self, image: ImageLike, stamp: float = 0.0) -> Classifications:
        """Classes of an image taken at `stamp` seconds, the most probable first, "unknown" among them.

        Raises what Embedder.update raises, and DeviceError.
        """
        embedding = self._embedder.update(image, stamp)
        if not embedding.valid or self._classifier is None:
            return nothing_known(stamp)
        return self.classify(embedding.vector, stamp)

    def classify(self, vector: NDArray[np.floating], stamp: float = 0.0) -> Classifications:
        """Classes of an embedding, [dimension], of length 1. Raises InputError before anything is taught."""
        if self._classifier is None or self._plan is None:
            raise InputError("expected classes to be taught first; there are none")
        values = self._plan.checked_vector(self._classifier.head.inputs(vector))
        product = self._tiles.run(product_passes.multiply(self._plan, values[np.newaxis])).only.outputs
        return self._classifier.classify(vector, product, stamp, self.max_results, self.min_confidence)

    def save(self, path: str | Path) -> None:
        """Write all examples to a file; ArchiveError if it cannot be written."""
        self.examples.save(path)

    def load(self, path: str | Path) -> None:
        """Replace the examples by those of a file, and learn from them.

        Raises ArchiveError for a file that `save` has not written, InputError for one of another model.
        """
        examples = TaughtExamples.load(path, self.examples.capacity)
        examples.check_model("", self._embedder.size)
        self.examples = examples
        self.train()

    def _learn(self, label: str, vectors: Sequence[NDArray[np.float32]], replace: bool) -> None:
        self.examples.add(label, vectors, replace=replace)
        self.train()


def nothing_known(stamp: float) -> Classifications:
    """The result for an image that resembles nothing taught."""
    return Classifications(stamp, (Classification(UNKNOWN_NUMBER, UNKNOWN, 1.0),))


def _cpu_engine(size: int) -> SwappableEngine:
    from edgetpu_driver.engines.cpu_engine import CpuEngine
    from edgetpu_driver.toolchain import dense_graph as dense

    return CpuEngine(dense.build(size))
