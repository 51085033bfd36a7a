"""The parameters of every vision node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from edgetpu_driver.errors import InputError
from edgetpu_driver.node_kit.images.image_parameters import image_settings
from edgetpu_driver.node_kit.parameters import Setting, merge_settings
from edgetpu_vision.preprocessing.channel_order import CHANNEL_ORDERS
from edgetpu_vision.preprocessing.image_fit import FITS, Fit
from edgetpu_vision.preprocessing.pixel_scaling import Normalisation


def model_files(value: Any) -> list[str]:
    """The files that a value of the parameter `model` names: one, or the segments of a pipeline in order."""
    parts = value.split(",") if isinstance(value, str) else value
    return [part.strip() for part in parts]


def _no_model(value: Any) -> str | None:
    is_text = isinstance(value, str) or (
        isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    )
    if is_text and value and all(model_files(value)):
        return None
    return f"expected the name of a model, or those of the segments of a pipeline; got {value!r}"


def model_setting(default: str) -> Setting:
    """Describe `model` for a node whose default is that model."""
    return Setting(
        "model",
        default,
        "Model to run: file stem, file name or path, as the driver's load_model takes it; of a pipeline "
        "those of its segments, as a list or separated by commas. A new value loads another model.",
        read_only=False,
        check=_no_model,
        any_type=True,
    )


LABELS = Setting(
    "labels",
    "",
    "Names of the model's classes: a text file with one name per line, or with number and name, or a known "
    "set, coco or pascal_voc. Empty: those in the model's file.",
    read_only=False,
)

OUTPUT = Setting(
    "output",
    "",
    "Name of the model's output to read, if several could be meant. Empty: the only one.",
    read_only=False,
)


def _no_classes(values: list[Any]) -> str | None:
    if all(isinstance(each, str | int) and not isinstance(each, bool) for each in values):
        return None
    return f"expected classes by label or number; got {values}"


CLASSES = Setting(
    "classes",
    [],
    "Classes to keep, labels or numbers; others are left out. Empty: all.",
    read_only=False,
    check=_no_classes,
    any_type=True,
)

FIT = Setting(
    "fit",
    "",
    "How images are resized to the model's input: letterbox keeps the aspect ratio and fills the rest, "
    "stretch does not. Empty: as is usual for such models.",
    choices=("", *FITS),
    read_only=False,
)


CHANNEL_ORDER = Setting(
    "channel_order",
    "rgb",
    "Order in which the model takes red, green and blue; models of Caffe and OpenCV take bgr. A grey model "
    "has none.",
    choices=CHANNEL_ORDERS,
    read_only=False,
)


def _are_numbers(values: list[Any]) -> bool:
    return all(type(each) in (int, float) and isfinite(each) for each in values)


def _not_for_channels(values: list[Any], number: str) -> str:
    return f"expected one {number}, or three in the order of the model's channels; got {values}"


def _no_means(values: list[Any]) -> str | None:
    if _are_numbers(values) and len(values) in (0, 1, 3):
        return None
    return _not_for_channels(values, "finite number")


def _no_divisors(values: list[Any]) -> str | None:
    if _no_means(values) is None and 0 not in values:
        return None
    return _not_for_channels(values, "finite number other than 0")


MEAN = Setting(
    "mean",
    [],
    "Subtracted from the grey levels 0 to 255, which are then divided by std: one number, or three in the "
    "order of the model's channels. Empty: 0 if std is set, else see input_range.",
    read_only=False,
    check=_no_means,
    any_type=True,
)

STD = Setting(
    "std",
    [],
    "Divides the grey levels 0 to 255 less mean: one number, or three in the order of the model's channels. "
    "Empty: 1 if mean is set, else see input_range.",
    read_only=False,
    check=_no_divisors,
    any_type=True,
)


def _no_range(values: list[Any]) -> str | None:
    if not values or (_are_numbers(values) and len(values) == 2 and values[0] < values[1]):
        return None
    return f"expected the values for black and for white, the first one smaller; got {values}"


INPUT_RANGE = Setting(
    "input_range",
    [],
    "Real values that the model takes for black and for white, such as [-1.0, 1.0]. Empty: what its file "
    "says, or what is usual for such models, unless mean or std is set.",
    read_only=False,
    check=_no_range,
    any_type=True,
)


def normalisation_of(values: Mapping[str, Any]) -> Normalisation | None:
    """The normalisation that `mean` and `std`, or `input_range`, ask for; None to take the model's.

    Raises InputError if both are set, or give numbers that float32 cannot hold.
    """
    mean, std, limits = values["mean"], values["std"], values["input_range"]
    if limits and (mean or std):
        raise InputError(
            f"expected either input_range or mean and std; got input_range {limits}, mean {mean}, std {std}"
        )
    if limits:
        return Normalisation.of_range(*limits)
    if not mean and not std:
        return None
    channels = max(len(mean), len(std))
    return Normalisation.of(_for_each(mean or [0.0], channels), _for_each(std or [1.0], channels))


def embedding_settings(values: Mapping[str, Any], usual_fit: Fit) -> str:
    """The parameters that an embedding depends on besides the model and the image, in JSON.

    An input_range gives the same text as the mean and std of the same effect. usual_fit: that of the
    algorithm, for an empty `fit`.
    """
    settings = {"fit": values["fit"] or usual_fit, "channel_order": values["channel_order"]}
    if normalisation := normalisation_of(values):
        settings |= {"mean": _shortest(normalisation.mean), "std": _shortest(normalisation.std)}
    return json.dumps(settings | {name: values[name] for name in ("output", "feedback") if values[name]})


def _shortest(numbers: tuple[float, ...]) -> list[float]:
    """One number for all channels if they have the same."""
    return list(numbers[:1] if len(set(numbers)) == 1 else numbers)


def _for_each(numbers: list[float], channels: int) -> list[float]:
    return numbers * channels if len(numbers) == 1 else numbers


def min_confidence(default: float) -> Setting:
    """Describe `min_confidence` for a node whose results have parts with scores, or none at all."""
    return Setting(
        "min_confidence",
        default,
        "Detections, classes and people of lower confidence are left out; label images and embeddings have "
        "no score.",
        0.0,
        1.0,
        read_only=False,
    )


def feedback_pairs(values: list[str]) -> dict[str, str]:
    """Parse a value of the parameter `feedback`: the input that each output is fed back to, by output."""
    pairs = (value.partition("=") for value in values)
    return {output.strip(): target.strip() for output, _, target in pairs}


def _no_feedback(values: list[str]) -> str | None:
    if all(output and target for output, target in feedback_pairs(values).items()):
        return None
    return f"expected pairs output=input; got {values}"


FEEDBACK = Setting(
    "feedback",
    [],
    "For a recurrent model: each output that is fed back and the input it becomes in the next run, as "
    "output=input. A jump in time resets these inputs. Empty: those whose names match.",
    read_only=False,
    check=_no_feedback,
)


def max_results(default: int, what: str) -> Setting:
    """Describe `max_results` for a node that publishes several of `what`."""
    return Setting("max_results", default, f"Maximum number of {what}.", 1, 1000, read_only=False)


def vision_settings(model: str, confidence: float, *own: Setting) -> tuple[Setting, ...]:
    """The parameters of a vision node; own ones replace common ones of that name.

    model: the default. confidence: the default of min_confidence.
    """
    of_input = FIT, CHANNEL_ORDER, MEAN, STD, INPUT_RANGE
    common = (model_setting(model), *of_input, FEEDBACK, min_confidence(confidence))
    return merge_settings(image_settings(*common), own)
