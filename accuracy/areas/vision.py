"""Detection, classification and embeddings of real models against LiteRT, segmentation against a mask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from accuracy.scenes.photographs import color_photograph
from edgetpu_driver import CompiledModel, CpuEngine, EdgeTpu, Model, VirtualEdgeTpu
from edgetpu_driver.tflite.subgraph_extraction import extract
from edgetpu_driver.tflite.tensor import TensorSpec
from edgetpu_vision import Classifier, Detections, Detector, Embedder, Segmenter, describe
from measured_figures.row import Row
from testdata import GOLDEN

AREA = "vision"

_DEEPLAB = "models/deeplabv3_mnv2_pascal_quant"
_BIRD = 3
"""Number of the class in the mask and in PASCAL VOC."""
_MOBILENET = "mobilenet_v1_0.25_128_quant"
_FEATURES = "vision/mobilenet_v1_1.0_224_quant_embedding_extractor.tflite"
_SSD = "models/ssd_mobilenet_v1_coco_quant_postprocess_segment_1_of_2_edgetpu.tflite"
_SSD_SIZE, _SSD_ANCHORS, _SSD_SCORES = 300, 1917, 91
_SSD_INNER = ("Squeeze1", "convert_scores")
"""Names of the encoded boxes and scores, the inputs of the post-processing operator."""
_SSD_OUTPUTS = ("TFLite_Detection_PostProcess", *(f"TFLite_Detection_PostProcess:{n}" for n in (1, 2, 3)))
_LEAST_SCORE = 0.4

Picture = NDArray[np.uint8]


def measure(engine: str, quick: bool = False) -> list[Row]:
    """Rows for each kind of model.

    Only segmentation and classification run on the virtual stick: they have compiled files.

    Raises MissingFileError without the models and pictures.
    """
    rows = [_segmentation(engine), _classification(engine), _embedding()]
    return rows + _detection(2 if quick else 20)


def plots(engine: str) -> dict[str, object]:  # noqa: ARG001
    """Draw nothing."""
    return {}


@contextlib.contextmanager
def _model(engine: str, graph: str, compiled: str) -> Iterator[Model]:
    if engine == "cpu":
        yield Model.load(GOLDEN.path(graph))
        return
    path = GOLDEN.path(compiled)
    stick = VirtualEdgeTpu().register_model(CompiledModel.load(path), GOLDEN.path(graph).read_bytes())
    with EdgeTpu.open(stick) as tpu:
        yield Model.load(path, tpu)


def _picture(name: str) -> Picture:
    return color_photograph(str(GOLDEN.path(f"vision/pictures/{name}.bmp")))


def _segmentation(engine: str) -> Row:
    """Overlap of the bird that is found in a picture with the bird in its mask."""
    mask = cv2.imread(str(GOLDEN.path("vision/pictures/bird_segmentation_mask.bmp")), cv2.IMREAD_UNCHANGED)
    with _model(engine, f"{_DEEPLAB}.tflite", f"{_DEEPLAB}_edgetpu.tflite") as model:
        labels = Segmenter(model).update(_picture("bird_segmentation")).labels
    found, truth = labels == _BIRD, mask == _BIRD
    overlap = 100 * np.count_nonzero(found & truth) / np.count_nonzero(found | truth)
    return Row(AREA, "DeepLab, the mask of a bird", "overlap", overlap, "%", 90.0, "higher")


def _classification(engine: str) -> Row:
    """Largest difference of a score from LiteRT's output, over all classes of three pictures."""
    graph = f"vision/{_MOBILENET}.tflite"
    errors = []
    with _model(engine, graph, f"models/{_MOBILENET}_edgetpu.tflite") as model:
        classifier = Classifier(model, max_results=1001)
        reference = CpuEngine(GOLDEN.path(graph))
        for name in ("cat", "bird", "grace_hopper"):
            frame = classifier.preprocess(_picture(name))
            expected = reference.outputs[0].dequantise(next(iter(reference.run(frame.inputs).values()))[0])
            classes = classifier.postprocess(frame, model.run(frame.inputs)).classes
            errors += [abs(each.score - float(expected[each.class_id])) for each in classes]
    return _error("MobileNet 0.25, classes of three pictures", max(errors))


def _embedding() -> Row:
    """A picture's vector against LiteRT's output, which is normalised to length 1."""
    engine = CpuEngine(GOLDEN.path(_FEATURES))
    embedder = Embedder(engine)
    frame = embedder.preprocess(_picture("cat"))
    outputs = engine.run(frame.inputs)
    real = engine.outputs[0].dequantise(next(iter(outputs.values()))).ravel().astype(np.float64)
    vector = embedder.postprocess(frame, outputs).vector
    return _error(
        "MobileNet features of a picture", float(np.abs(vector - real / np.linalg.norm(real)).max())
    )


def _error(case: str, value: float) -> Row:
    return Row(AREA, case, "largest difference from LiteRT", value, "", 1e-6, "lower")


def _detection(frames: int) -> list[Row]:
    """Boxes decoded from an SSD's inner tensors against those of LiteRT's operator for the same tensors."""
    file = GOLDEN.path(_SSD).read_bytes()
    tail = CpuEngine(extract(file, list(_SSD_INNER), list(_SSD_OUTPUTS)))
    specs = {spec.name: spec for spec in tail.inputs}
    detector = Detector(min_confidence=_LEAST_SCORE, fit="stretch", description=describe([file]))
    image = TensorSpec("image", (1, _SSD_SIZE, _SSD_SIZE, 3), np.dtype(np.uint8), 1 / 128, 128)
    detector.bind([image], tail.inputs)
    frame = detector.preprocess(np.zeros((_SSD_SIZE, _SSD_SIZE, 3), np.uint8))
    missed, worst_score, worst_box = 0, 0.0, 0.0
    for seed in range(frames):
        inner = _inner_tensors(specs, seed)
        found, expected = _rows_of(detector.postprocess(frame, inner)), _rows_of_operator(tail.run(inner))
        missed += abs(len(found) - len(expected))
        if len(found) == len(expected):
            difference = np.abs(found - expected)
            worst_score = max(worst_score, float(difference[:, :2].max(initial=0)))
            worst_box = max(worst_box, float(difference[:, 2:].max(initial=0)))
    case = "SSD MobileNet v1 from its inner tensors"
    return [
        Row(AREA, case, "boxes missed or too many", float(missed), "", 0.0, "lower"),
        _error(case, worst_score),
        Row(AREA, case, "largest difference of a box", worst_box, "px", 0.01, "lower"),
    ]


def _inner_tensors(specs: dict[str, TensorSpec], seed: int) -> dict[str, NDArray[Any]]:
    """Random inner tensors by name: most scores are low, some high."""
    rng = np.random.default_rng(seed)
    boxes, scores = _SSD_INNER
    encodings = rng.normal(0, 2, (1, _SSD_ANCHORS, 4))
    probabilities = rng.random((1, _SSD_ANCHORS, _SSD_SCORES)) ** 100
    return {boxes: specs[boxes].quantise(encodings), scores: specs[scores].quantise(probabilities)}


def _rows_of(result: Detections) -> NDArray[np.float64]:
    """Class, score and box of each detection, [n, 6], in an order that does not depend on equal scores."""
    rows = [(e.class_id, e.score, e.x_min, e.y_min, e.x_max, e.y_max) for e in result.detections]
    return np.array(sorted(rows)).reshape(-1, 6)


def _rows_of_operator(outputs: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """The same rows from the operator's outputs, with boxes clipped to the image."""
    boxes, classes, scores, count = (outputs[name] for name in _SSD_OUTPUTS)
    kept = np.flatnonzero(scores[0, : int(count[0])] >= _LEAST_SCORE)
    px = np.clip(boxes[0, kept][:, [1, 0, 3, 2]], 0, 1).astype(np.float64) * _SSD_SIZE
    rows = np.column_stack((classes[0, kept], scores[0, kept], px))
    rows = rows[(rows[:, 4] > rows[:, 2]) & (rows[:, 5] > rows[:, 3])]
    return np.array(sorted(rows.tolist())).reshape(-1, 6)
