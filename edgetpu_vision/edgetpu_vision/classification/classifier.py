"""The classifier: the most probable classes of an image."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.algorithm import Frame, ModelLike, Outputs, VisionAlgorithm, whole_output
from edgetpu_vision.class_selection import check_max_results, selected_classes
from edgetpu_vision.classification.classifications import Classification, Classifications
from edgetpu_vision.classification.top_k import GreatestValues
from edgetpu_vision.output_values import (
    always_probabilities,
    is_symmetric,
    log_sum_exp,
    real_range,
    real_values,
    scaled,
    sigmoid,
    single_output,
    within_0_and_1,
)


class Classifier(VisionAlgorithm[Classifications]):
    """Classifies an image, by a model whose output has a value for each class.

    Values within 0..1 are taken as probabilities, others as logits, to which softmax is applied. A single
    probability is that of class 1 of two classes, and so is the sigmoid of a single logit.
    """

    max_results: int
    """Largest number of classes in a result."""

    def __init__(
        self,
        model: ModelLike | None = None,
        *,
        max_results: int = 5,
        classes: Sequence[str | int] = (),
        output: str = "",
        **options: Any,
    ) -> None:
        """Prepare for a model; see VisionAlgorithm for the options and what is raised.

        classes: labels or numbers of the classes to choose from, all by default. output: name of the output
        to read, if the model has several. Raises InputError unless max_results is 1 or more.
        """
        check_max_results(max_results)
        self.max_results = max_results
        self._wanted = classes
        self._output_name = output
        super().__init__(model, **options)

    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        del image
        spec = single_output(outputs, self._output_name, self._has_classes, "a value for each class")
        self._output = spec
        if max(spec.shape) == 1:  # postprocess adds the other class
            spec = TensorSpec(spec.name, (2,), np.dtype(np.float32), 0.0, 0)
        count = max(spec.shape)
        self.use_labels(count)
        self._chosen = selected_classes(self._wanted, self.labels, count)
        self._greatest = GreatestValues(count if self._chosen is None else self._chosen.size)
        self._spec = spec
        names = self.labels.names if self.labels else ()
        self._names = [names[index] if index < len(names) else "" for index in range(count)]
        self._are_probabilities = self.description.are_probabilities(self._output)

    def postprocess(self, frame: Frame, outputs: Outputs) -> Classifications:
        """The most probable classes; OutputsError if the output is missing or of another size."""
        values = whole_output(outputs, self._output).reshape(-1)
        if self._output is not self._spec:
            likely = real_values(values, self._output)
            likely = likely if self._are_probabilities else sigmoid(likely)
            values = np.concatenate((1 - likely, likely))
        candidates = values if self._chosen is None else values[self._chosen]
        best = self._greatest.of(candidates, self.max_results)
        if self._chosen is not None:
            best = self._chosen[best].tolist()
        names, least = self._names, self.min_confidence
        found = zip(best, self._scores(values, best), strict=True)
        return Classifications(
            frame.stamp,
            tuple(Classification(index, names[index], score) for index, score in found if score >= least),
        )

    def _scores(self, values: NDArray[Any], chosen: list[int]) -> list[float]:
        """Probabilities of the chosen classes."""
        real = real_values(values[chosen], self._spec)
        are_two = self._output is not self._spec
        are_probabilities = self._are_probabilities
        if are_probabilities is None:
            are_probabilities = within_0_and_1(values, self._spec)
        if are_two or are_probabilities:
            scores: list[float] = np.clip(real, 0, 1).tolist()  # the range of 8 bits may exceed them
        else:
            scores = np.exp(real - log_sum_exp(values, self._spec)).tolist()
        return scores

    def _may_be_logit(self, spec: TensorSpec) -> bool:
        """Whether the quantised range of an output has values on both sides of 0, and not only up to 1."""
        tensor = self.description.quantised(spec)
        if is_symmetric(tensor):
            return always_probabilities(tensor) is False
        limits = real_range(tensor)
        return limits is not None and limits[0] < 0 < limits[1]

    def _has_classes(self, spec: TensorSpec) -> bool:
        """Whether an output is a vector: a value for each class, or the likelihood of one of two."""
        is_vector = bool(spec.shape) and prod(spec.shape) == max(spec.shape) >= 1
        if not is_vector or not scaled([spec]):
            return False
        return (
            max(spec.shape) > 1
            or self.description.are_probabilities(spec) is True
            or self._may_be_logit(spec)
        )
