"""What a model's files say beyond shapes: metadata, labels, anchors, options, numbers of classes."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest

from edgetpu_driver.errors import ModelFormatError
from edgetpu_driver.tflite import flexbuffer
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import Classifier, Embedder, ModelDescription, Normalisation, describe
from edgetpu_vision.preprocessing.pixel_scaling import PixelScaling
from testdata import GOLDEN
from testdata.graphs.metadata_files import model_with_metadata, with_files
from testdata.pictures.fixed_outputs import fixed, spec


def test_normalisation_labels_and_names_of_outputs_are_read() -> None:
    description = describe(
        [
            model_with_metadata(
                mean=[127.5], std=[64.0], output_names=["location", "category"], labels={"l.txt": b"cat\ndog"}
            )
        ]
    )
    assert description.normalisations == {"image": Normalisation((127.5,), (64.0,))}
    assert description.output_names == {"out0": "location", "out1": "category"}
    assert description.labels is not None
    assert description.labels.names == ("cat", "dog")


def test_a_model_without_metadata_says_nothing() -> None:
    description = describe([plain_graph()])
    assert (description.normalisations, description.output_names, description.labels) == ({}, {}, None)


def plain_graph() -> bytes:
    """A graph of the suite's own builder, which writes no metadata."""
    builder = GraphBuilder("plain")
    image = builder.input("image", (1, 4), np.uint8, scale=1.0, zero_point=0)
    inside = builder.quantize(image, np.int8, scale=1.0, zero_point=-128)
    builder.output(builder.softmax(inside, name="probabilities"))
    return builder.build()


def test_probabilities_are_recognised_by_the_operator() -> None:
    assert describe([plain_graph()]).probabilities == {"probabilities"}


@pytest.mark.parametrize(
    "content",
    [
        b"{'names': {0: 'cat', 1: 'dog'}, 'imgsz': [320, 320], 'task': 'detect'}",
        b'{"names": {"0": "cat", "1": "dog"}, "stride": 32}',
        b"{'names': ['cat', 'dog']}",
    ],
)
def test_the_description_of_a_yolo_exporter_has_labels(content: bytes) -> None:
    labels = describe([with_files(model_with_metadata(), {"temp_meta.txt": content})]).labels
    assert labels is not None
    assert labels.names == ("cat", "dog")


@pytest.mark.parametrize(
    "content",
    [
        b"{'names': 3}",
        b"{'names': {'x': 'cat'}}",
        b"{'names': {0: 'cat'",
        b"{" * 5000,
        b"[1, 2]",
        b"\xff\xfe",
        b"{'names': {}}",
        b"{'names': {1e999: 'cat'}}",
        b"{'names': {None: 'cat'}}",
        b"{[1]: 'cat'}",
        b"{{}}",
    ],
)
def test_other_files_in_the_archive_say_nothing(content: bytes) -> None:
    description = describe([with_files(model_with_metadata(), {"temp_meta.txt": content})])
    assert description.labels is None


def test_an_archive_that_cannot_be_unpacked_says_nothing() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as target:
        target.writestr("temp_meta.txt", b"{'names': ['cat']}")
    content = bytearray(archive.getvalue())
    content[45] ^= 0xFF  # in the compressed data, for which lzma has an error of its own
    assert describe([model_with_metadata() + content]).labels is None


def test_an_archive_of_very_many_files_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_files(model_with_metadata(), {f"{number}.txt": b"" for number in range(65)})
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("opened"))
    assert describe([model]).labels is None


def test_no_more_is_unpacked_than_some_files_of_labels_take() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for number in range(3):
            target.writestr(f"{number}.txt", bytes(2**22))
        target.writestr("temp_meta.txt", b"{'names': ['cat']}")
    assert describe([model_with_metadata() + archive.getvalue()]).labels is None


def test_damaged_metadata_are_left_out() -> None:
    data = bytearray(model_with_metadata(mean=[1.0], std=[1.0], labels={"l.txt": b"cat"}))
    start = data.index(b"M001")
    data[start - 4 : start] = b"\xff\xff\xff\x7f"
    assert describe([bytes(data)]).normalisations == {}


@pytest.mark.parametrize(
    ("mean", "std"),
    [([1.0], [0.0]), ([1.0], [1e-40]), ([3.4e38], [0.5]), ([1.0, 2.0, 3.0], [1.0]), ([float("nan")], [1.0])],
)
def test_an_unusable_normalisation_is_left_out(mean: list[float], std: list[float]) -> None:
    assert describe([model_with_metadata(mean=mean, std=std)]).normalisations == {}


@pytest.mark.parametrize(
    ("damaged", "left"),
    [
        ({"labels": {"l.txt": "café".encode("latin-1")}}, ({"image": Normalisation((1.0,), (2.0,))}, None)),
        ({"std": [0.0]}, ({}, ("cat",))),
    ],
    ids=["labels", "normalisation"],
)
def test_one_damaged_part_leaves_the_others(damaged: dict[str, Any], left: tuple[object, object]) -> None:
    whole: dict[str, Any] = {
        "mean": [1.0],
        "std": [2.0],
        "output_names": ["score"],
        "labels": {"l.txt": b"cat"},
    }
    description = describe([model_with_metadata(**(whole | damaged))])
    labels = description.labels.names if description.labels is not None else None
    assert (description.normalisations, labels) == left
    assert description.output_names == {"out0": "score"}


def test_anything_but_a_model_is_an_error() -> None:
    with pytest.raises(ModelFormatError):
        describe([b"no model"])


def test_a_float_input_that_is_quantised_at_once_has_the_range_of_that() -> None:
    builder = GraphBuilder("float input")
    image = builder.input("image", (1, 8, 8, 3), np.float32)
    (inside,) = builder.custom("x", [image], [TensorSpec("y", (1, 8, 8, 3), np.dtype(np.int8), 0.5, 0)])
    builder.output(inside)
    data = builder.build()
    assert describe([data]).quantised_inputs == {}  # a custom operator may do anything


def test_a_float_input_has_the_range_of_the_quantisation_behind_it() -> None:
    builder = GraphBuilder("float input")
    image = builder.input("image", (1, 8, 8, 3), np.float32)
    inside = TensorSpec("inside", image.shape, np.dtype(np.int8), 1 / 127.5, 0)
    builder.output(builder._apply("QUANTIZE", [image], inside))  # the builder's own begins with 8 bits
    (normalisation,) = describe([builder.build()]).quantised_inputs.values()
    scaling = PixelScaling(image, normalisation)
    scaled = [scaling.of_level(level, 3)[0] for level in (0, 128, 255)]
    np.testing.assert_allclose(scaled, [-1.004, 0.0, 0.996], atol=0.005)


def test_options_of_the_post_processing_are_read() -> None:
    facts = describe([ssd({"num_classes": 3, "max_detections": 7, "nms_iou_threshold": 0.25})]).post_process
    assert facts is not None
    assert (facts.classes, facts.max_detections, facts.iou_threshold, facts.per_class) == (3, 7, 0.25, False)
    np.testing.assert_allclose(facts.anchors, [[0.25, 0.5, 1.0, 1.5]])
    assert facts.outputs == ("a", "b", "c", "d")


@pytest.mark.parametrize("options", [{"y_scale": 0.0}, {"num_classes": b"many"}, {"h_scale": float("nan")}])
def test_senseless_options_are_left_out(options: dict[str, object]) -> None:
    assert describe([ssd(options)]).post_process is None


def ssd(options: dict[str, object]) -> bytes:
    """A graph that ends with TFLite_Detection_PostProcess for one anchor."""
    builder = GraphBuilder("ssd")
    boxes = builder.input("boxes", (1, 1, 4), np.float32)
    scores = builder.input("scores", (1, 1, 4), np.float32)
    anchors = builder.constant(np.array([[1, 2, 4, 6]]), scale=0.25, zero_point=0, name="anchors")
    outputs = [spec(name, (1, 7)) for name in "abcd"]
    encoded = flexbuffer.encode(options)  # type: ignore[arg-type]
    for each in builder.custom("TFLite_Detection_PostProcess", [boxes, scores, anchors], outputs, encoded):
        builder.output(each)
    return builder.build()


def test_normalisation_of_the_metadata_is_used_for_a_float_input() -> None:
    description = describe([model_with_metadata(mean=[100.0], std=[50.0])])
    model = fixed({spec("p", (1, 2)): np.array([[0.5, 0.5]], np.float32)})
    classifier = Classifier(description=description)
    classifier.bind([spec("image", (1, 8, 8, 3))], model.outputs)
    frame = classifier.preprocess(np.full((8, 8, 3), 200, np.uint8))
    np.testing.assert_allclose(frame.inputs["image"], 2.0)


@pytest.mark.parametrize(
    ("exporter", "expected"),
    [
        ({"stride": 32, "names": {0: "cat"}}, [-14, 40]),
        ({"stride": 32, "task": "detect", "names": {0: "cat"}}, [-14, 40]),
        ({"stride": 1, "task": "classify", "names": {0: "cat"}}, [-128, 127]),
        ({}, [-128, 127]),
    ],
    ids=str,
)
def test_models_of_yolo_exporters_take_grey_levels_from_0_to_1(exporter: Any, expected: list[int]) -> None:
    """The quantisation of a YOLOv8 that was exported without pictures: ImageNet's range, -2.1 to 2.6."""
    embedder = Embedder(description=ModelDescription(exporter=exporter))
    embedder.bind([spec("image", (1, 8, 8, 3), np.int8, 0.01865845, -14)], [spec("p", (1, 9))])
    frames = [embedder.preprocess(np.full((8, 8, 3), level, np.uint8)) for level in (0, 255)]
    assert [frame.inputs["image"].ravel()[0] for frame in frames] == expected


def test_a_normalisation_for_a_float_input_is_not_used_where_it_makes_all_black() -> None:
    description = ModelDescription(normalisations={"image": Normalisation((0.0,), (255.0,))})
    embedder = Embedder(description=description)
    embedder.bind([spec("image", (1, 8, 8, 3), np.int8, 1.0, -128)], [spec("p", (1, 9))])
    frame = embedder.preprocess(np.full((8, 8, 3), 255, np.uint8))
    assert frame.inputs["image"].max() == 127


def test_the_range_behind_a_float_input_does_not_matter_to_models_of_yolo_exporters() -> None:
    wide = {"image": Normalisation.of_range(-2.1, 2.6)}
    description = ModelDescription(exporter={"stride": 32, "names": ["cat"]}, quantised_inputs=wide)
    embedder = Embedder(description=description)
    embedder.bind([spec("image", (1, 8, 8, 3))], [spec("p", (1, 9))])
    frame = embedder.preprocess(np.full((8, 8, 3), 255, np.uint8))
    np.testing.assert_allclose(frame.inputs["image"], 1.0)


def test_labels_of_the_metadata_name_the_classes() -> None:
    description = describe([model_with_metadata(labels={"l.txt": b"cat\ndog"})])
    model = fixed({spec("p", (1, 2)): np.array([[0.25, 0.5]], np.float32)})
    found = Classifier(model, description=description).update(np.zeros((8, 8, 3), np.uint8)).classes
    assert [each.label for each in found] == ["dog", "cat"]


def test_a_published_model_brings_its_labels() -> None:
    description = describe([GOLDEN.path("models/mobilenet_v1_0.25_128_quant_edgetpu.tflite").read_bytes()])
    assert description.labels is not None
    assert description.labels.names[283] == "tiger cat"
    assert description.normalisations == {"input": Normalisation((127.5,), (127.5,))}


def test_a_published_segmentation_tells_its_number_of_classes() -> None:
    data = GOLDEN.path("models/deeplabv3_mnv2_pascal_quant_edgetpu.tflite").read_bytes()
    assert describe([data]).class_counts == {"ArgMax": 21}
