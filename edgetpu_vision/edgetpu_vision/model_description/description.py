"""The description of a model's inputs and outputs in its files, beyond their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.labels.labels import Labels
from edgetpu_vision.model_description.graph_facts import PostProcess, graph_facts
from edgetpu_vision.model_description.tflite_metadata import read_metadata
from edgetpu_vision.output_values import always_probabilities
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation


@dataclass(frozen=True, eq=False)
class ModelDescription:
    """Facts about a model's inputs and outputs, by their names; all may be unknown."""

    normalisations: Mapping[str, Normalisation] = field(default_factory=dict)
    """Normalisation of image inputs, from the metadata."""
    quantised_inputs: Mapping[str, Normalisation] = field(default_factory=dict)
    """For float inputs that the graph quantises immediately: the normalisation that covers the range of the
    quantisation."""
    output_names: Mapping[str, str] = field(default_factory=dict)
    """Meaning of outputs in the metadata, such as "location", "category", "score"."""
    labels: Labels | None = None
    """Labels in the metadata."""
    exporter: Mapping[str, Any] = field(default_factory=dict)
    """The dict with "names" in the archive; that of a YOLO's exporter has "stride", "task" .., too."""
    post_process: PostProcess | None = None
    """Anchors and options of an SSD."""
    class_counts: Mapping[str, int] = field(default_factory=dict)
    """For outputs that are an argmax, the number of values that it was taken over."""
    probabilities: frozenset[str] = frozenset()
    """Outputs that SOFTMAX or LOGISTIC computed."""
    dequantised_outputs: Mapping[str, TensorSpec] = field(default_factory=dict)
    """For float outputs that the graph dequantises at its end: the integer tensor with their quantisation."""

    def quantised(self, output: TensorSpec) -> TensorSpec:
        """The tensor whose quantisation tells the range of an output: the one behind it, else itself."""
        return self.dequantised_outputs.get(output.name, output)

    def are_probabilities(self, output: TensorSpec) -> bool | None:
        """Whether an output holds probabilities, by the graph or the range; None if its values decide."""
        return True if output.name in self.probabilities else always_probabilities(self.quantised(output))

    @property
    def by_yolo_exporter(self) -> bool:
        """Whether the exporter of a YOLO described the model, rather than a person in a file with "names"."""
        return "stride" in self.exporter

    @property
    def exporter_normalisation(self) -> Normalisation | None:
        """Grey levels as 0..1, if the exporter of a YOLO model described it; None if it did not.

        All of these models take 0..1, except those that classify. Their quantisation may cover more: without
        pictures of its own, the exporter calibrates with ones that are normalised as for ImageNet.
        """
        described = self.by_yolo_exporter and self.exporter.get("task") != "classify"
        return Normalisation.of_range(0.0, 1.0) if described else None


NO_DESCRIPTION = ModelDescription()


def describe(files: Sequence[bytes]) -> ModelDescription:
    """Read the contents of a .tflite file, or of the segments of a pipeline in their order.

    Absent and damaged parts are left out, as a model runs without them. Raises ModelFormatError for a file
    that is not a model.
    """
    result = NO_DESCRIPTION
    for data in files:
        result = _joined(result, _describe_file(data))
    return result


def _describe_file(data: bytes) -> ModelDescription:
    graph = parse_model(data).subgraphs[0]
    metadata = read_metadata(data)
    try:
        facts = graph_facts(graph)
    except EdgeTpuError:
        facts = graph_facts(type(graph)(graph.name, graph.tensors, graph.inputs, graph.outputs, ()))
    inputs = [spec.name for spec in graph.input_specs]
    outputs = [spec.name for spec in graph.output_specs]
    return ModelDescription(
        {name: each for name, each in zip(inputs, metadata.normalisations, strict=False) if each},
        facts.quantised_inputs,
        {name: each for name, each in zip(outputs, metadata.output_names, strict=False) if each},
        metadata.labels,
        metadata.exporter,
        facts.post_process,
        facts.class_counts,
        facts.probabilities,
        facts.dequantised_outputs,
    )


def _joined(first: ModelDescription, second: ModelDescription) -> ModelDescription:
    """The descriptions of two segments merged; if both have an entry, the later one is used."""
    return ModelDescription(
        {**first.normalisations, **second.normalisations},
        {**first.quantised_inputs, **second.quantised_inputs},
        {**first.output_names, **second.output_names},
        second.labels or first.labels,
        second.exporter or first.exporter,
        second.post_process or first.post_process,
        {**first.class_counts, **second.class_counts},
        first.probabilities | second.probabilities,
        {**first.dequantised_outputs, **second.dequantised_outputs},
    )
