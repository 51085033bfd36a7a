"""The base class of the decoders, and the frame between `preprocess` and `postprocess`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgetpu_driver.engines.whole_model.model import Model
from edgetpu_driver.engines.whole_model.recurrence import likely_feedback
from edgetpu_driver.errors import InputError, ModelUnsupportedError
from edgetpu_driver.images.conversion_cache import CameraImage
from edgetpu_driver.images.region import WHOLE, Region
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision.class_selection import check_share
from edgetpu_vision.errors import OutputsError
from edgetpu_vision.labels.label_sources import LabelSource, LabelTable
from edgetpu_vision.labels.labels import Labels
from edgetpu_vision.model_description.description import NO_DESCRIPTION, ModelDescription, describe
from edgetpu_vision.preprocessing.channel_order import check_channel_order
from edgetpu_vision.preprocessing.image_fit import Fit, Placement, check_fit
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation, covers
from edgetpu_vision.preprocessing.preprocessor import Preprocessor, by_rows, image_input

ImageLike = NDArray[np.uint8] | CameraImage
"""uint8 [H, W] or [H, W, 3] RGB; a CameraImage if several algorithms get the same image."""

Outputs = Mapping[str, NDArray[Any]]
"""The outputs of a model by name, as it gives them: quantised or not."""


class RunnableModel(Protocol):
    """Runs inference: edgetpu_driver.Model, or any engine."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in the model's order."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in the model's order."""
        ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the model once."""
        ...


ModelLike = RunnableModel | str | Path | Sequence[str | Path]
"""A model that is ready to run, or its file or the segments of a pipeline, to be run on the CPU."""


@dataclass(frozen=True)
class Frame:
    """A model's input made from one image, with what `postprocess` needs to know about that image."""

    stamp: float
    """Time of the image, s."""
    image_width: int
    image_height: int
    """Size of the image, px."""
    placement: Placement
    """Where the region of the image is in the model's input."""
    inputs: Mapping[str, NDArray[Any]]
    """The model's inputs by name; read-only."""


class VisionResult(Protocol):
    """The fields that every result has."""

    @property
    def valid(self) -> bool:
        """Whether something was found."""
        ...

    @property
    def confidence(self) -> float:
        """Confidence of the result, 0..1."""
        ...


Result = TypeVar("Result", bound=VisionResult)


class VisionAlgorithm(ABC, Generic[Result]):
    """A decoder: turns each camera image into a result, with one inference in between.

    `update` does all of it on a model. If inference runs elsewhere, construct it without a model, call
    `bind` with the model's tensors once, and for each image `preprocess`, the inference, and `postprocess`.

    A subclass recognises its model by the outputs (`_recognise`) and decodes them (`postprocess`).
    """

    default_fit: ClassVar[Fit] = "stretch"
    truncates: ClassVar[bool] = False
    """Whether interpolated grey levels of the input are rounded down instead of to the nearest."""

    region: Region
    """Part of the image to look at. Positions in results are those of the whole image."""
    min_confidence: float
    """Least confidence, 0..1; results, or parts of results, below it are left out."""

    def __init__(
        self,
        model: ModelLike | None = None,
        *,
        labels: LabelSource | None = None,
        min_confidence: float = 0.0,
        fit: str | None = None,
        normalisation: Normalisation | None = None,
        channel_order: str = "rgb",
        description: ModelDescription | None = None,
    ) -> None:
        """Prepare for a model. A subclass calls this last, because it calls `_recognise`.

        model: None if `bind` is called later. labels: names of the classes, see LabelTable; None for those
        in the model's files. fit: how images are resized to the input, see Fit; None for the default.
        normalisation: that of the model's input, in the order of its channels; None for the one in its
        files. channel_order: order of the input's channels, see ChannelOrder. description: that of the
        model's files; None to read them if `model` is a Model or files.

        Raises InputError for a min_confidence that is not from 0 to 1, an unknown fit or channel_order and a
        normalisation that the input cannot have, LabelsError, ModelUnsupportedError for a model that does not
        suit this algorithm, and what Model.load raises for files.
        """
        check_share("min_confidence", min_confidence)
        self.region = WHOLE
        self.min_confidence = min_confidence
        self.description = description or NO_DESCRIPTION
        """The description from the model's files; must be set before `bind`."""
        self.labels: Labels | None = None
        """Names of the model's classes; None if unknown."""
        self._label_table = LabelTable(labels)
        self._fit: Fit | None = check_fit(fit) if fit is not None else None
        self._normalisation = normalisation
        self._channel_order = check_channel_order(channel_order)
        self._preprocessor: Preprocessor | None = None
        self._placed_for: tuple[Region, int, int, Preprocessor] | None = None
        self._placement: Placement
        self._model: RunnableModel | None = None
        if model is not None:
            runnable = _loaded(model) if isinstance(model, str | Path | Sequence) else model
            if description is None and isinstance(runnable, Model):
                self.description = describe(runnable.plan.files)
            self.bind(runnable.inputs, runnable.outputs)
            self._model = runnable

    @property
    def model(self) -> str:
        """Name of the default model: empty, as there is none."""
        return ""

    @property
    def preprocessor(self) -> Preprocessor:
        """Makes the model's input; ModelUnsupportedError before the first `bind`."""
        if self._preprocessor is None:
            raise ModelUnsupportedError("expected a model to be bound before the first image; got none")
        return self._preprocessor

    @abstractmethod
    def postprocess(self, frame: Frame, outputs: Outputs) -> Result:
        """Second half of `update`: make the result from a frame and the model's outputs by name."""

    @abstractmethod
    def _recognise(self, image: TensorSpec, outputs: Sequence[TensorSpec]) -> None:
        """Prepare for a model with these outputs; ModelUnsupportedError if it is unsuitable.

        image: the model's input; its shape is [1, height, width, channels] whichever order the model has.
        """

    def bind(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Set the model by its inputs and outputs, before the first image or to change it.

        Raises ModelUnsupportedError if it does not suit this algorithm, LabelsError if the labels do not
        suit the model, InputError if the normalisation does not.
        """
        image = image_input(inputs)
        rows = by_rows(image)
        self._recognise(rows, outputs)
        normalisation = self._normalisation_of(rows)
        fit = self._fit or self._usual_fit()
        self._preprocessor = Preprocessor(
            image, fit, normalisation, channel_order=self._channel_order, truncates=self.truncates
        )

    def update(self, image: ImageLike, stamp: float = 0.0) -> Result:
        """Make a result from an image, uint8 [H, W] or [H, W, 3] RGB, taken at `stamp` seconds.

        Raises ImageError for any other array and if `region` exceeds the image, ModelUnsupportedError
        without a model, OutputsError if the outputs are not those of such a model, and what the model raises.
        """
        if self._model is None:
            raise ModelUnsupportedError("expected a model to run; got none: pass one to the constructor")
        frame = self.preprocess(image, stamp)
        if isinstance(self._model, Model):
            return self.postprocess(frame, self._model.run(frame.inputs, stamp))
        return self.postprocess(frame, self._model.run(frame.inputs))

    def preprocess(self, image: ImageLike, stamp: float = 0.0) -> Frame:
        """First half of `update`: make the model's input.

        Raises ImageError like `update`, and ModelUnsupportedError before the first `bind`.
        """
        preprocessor = self.preprocessor
        camera_image = image if isinstance(image, CameraImage) else CameraImage(image)
        width, height = camera_image.width, camera_image.height
        placed = self.region, width, height, preprocessor
        if placed != self._placed_for:  # images and region are the same for most frames
            self._placement = preprocessor.place(self.region.within(width, height))
            self._placed_for = placed
        placement = self._placement
        filled = preprocessor.fill(camera_image, placement)
        return Frame(stamp, width, height, placement, {preprocessor.spec.name: filled})

    def use_labels(self, classes: int | None) -> None:
        """Set `labels` for a model with this many classes (None: unknown); LabelsError if they do not fit."""
        self.labels = self._label_table.labels(classes, self.description.labels)

    def _usual_fit(self) -> Fit:
        """How images are resized to the input by default; called once the model is recognised."""
        return self.default_fit

    def _normalisation_of(self, image: TensorSpec) -> Normalisation | None:
        """The normalisation that the user set, else that in the files, else that of the quantisation.

        image: the model's input, as in `_recognise`. Raises InputError if the user set one for an input of 8
        bits without a scale, which takes the grey levels as they are.
        """
        if self._normalisation is not None:
            if image.dtype.itemsize == 1 and not image.scale > 0:
                raise InputError(
                    f"expected neither input_range nor mean and std for {image}, which has no scale; got "
                    f"mean {list(self._normalisation.mean)}, std {list(self._normalisation.std)}"
                )
            return self._normalisation
        of_metadata = self.description.normalisations.get(image.name)
        if of_metadata is not None and covers(image, of_metadata):
            return of_metadata
        of_exporter = self.description.exporter_normalisation
        if of_exporter is not None and covers(image, of_exporter):
            return of_exporter
        return self.description.quantised_inputs.get(image.name)


def _loaded(files: str | Path | Sequence[str | Path]) -> Model:
    """Load a model from files, on the CPU; outputs that look like states are fed back to its inputs."""
    model = Model.load(files)
    feedback = likely_feedback(model.inputs, model.outputs) if len(model.inputs) > 1 else {}
    return Model.load(files, feedback=feedback) if feedback else model


def output(outputs: Outputs, name: str) -> NDArray[Any]:
    """One output by name; OutputsError if it is missing."""
    found = outputs.get(name)
    if found is None:
        given = ", ".join(f"'{each}'" for each in outputs) or "none"
        raise OutputsError(f"expected the output '{name}'; got {given}")
    return found


def whole_output(outputs: Outputs, spec: TensorSpec) -> NDArray[Any]:
    """One output by its specification; OutputsError if it is missing or has another number of values."""
    found = output(outputs, spec.name)
    if found.size != prod(spec.shape):
        raise OutputsError(f"expected {spec}; got {found.dtype.name}{list(found.shape)}")
    return found
