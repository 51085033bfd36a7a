"""A classifier learned from examples: a layer over embeddings, and the calibration of `unknown`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.errors import InputError
from edgetpu_vision.classification.classifications import Classification, Classifications
from edgetpu_vision.learning.layer_as_dense_model import DenseHead, dense_head
from edgetpu_vision.learning.layer_training import LinearLayer, imprint, regress
from edgetpu_vision.learning.taught_examples import UNKNOWN, ExampleSet
from edgetpu_vision.learning.unknown_probability import Familiarity, calibrate

METHODS = {"regression": regress, "imprinting": imprint}

UNKNOWN_NUMBER = -1
"""Class number of UNKNOWN."""


@dataclass(frozen=True, eq=False)
class TaughtClassifier:
    """A layer over embeddings, together with the examples that it was learned from."""

    examples: ExampleSet
    layer: LinearLayer
    head: DenseHead
    familiarity: Familiarity

    @classmethod
    def of(cls, examples: ExampleSet, method: str, columns: int) -> TaughtClassifier:
        """Learn from one or more examples.

        method: one of METHODS. columns: number of columns of the Dense model that multiplies by the layer.
        Raises InputError without examples and for another method.
        """
        if not examples.labels:
            raise InputError("expected at least one example; nothing has been taught yet")
        if method not in METHODS:
            raise InputError(f"expected a method of {', '.join(METHODS)}; got '{method}'")
        layer = METHODS[method](examples)
        return cls(examples, layer, dense_head(layer, examples, columns), calibrate(examples))

    def classify(
        self,
        vector: NDArray[np.floating],
        product: NDArray[np.float64],
        stamp: float,
        max_results: int,
        min_confidence: float,
    ) -> Classifications:
        """Classes of an embedding, the most probable first, UNKNOWN among them.

        vector: the embedding, [dimension], of length 1. product: the head's matrix times its inputs. The
        probabilities of all classes and of UNKNOWN sum to 1; those below `min_confidence` are left out.
        """
        similarity = float((self.examples.vectors @ vector.astype(np.float64)).max())
        known = self.familiarity.probability(similarity)
        logits = self.layer.sharpness * self.head.outputs(product)
        shares = np.exp(logits - logits.max())
        scores = known * shares / shares.sum()
        found = [
            Classification(index, self.examples.labels[index], float(score))
            for index, score in enumerate(scores)
        ]
        found.append(Classification(UNKNOWN_NUMBER, UNKNOWN, 1 - known))
        found.sort(key=lambda each: -each.score)
        kept = tuple(each for each in found[:max_results] if each.score >= min_confidence)
        return Classifications(stamp, kept)
