"""Poses from PoseNet's maps of 31x41 cells. Baseline: the same in plain Python, keypoint by keypoint.

The maps are those of a real PoseNet for pictures with one and with five people; without the model they are
synthetic maps of standing people.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bench import baseline_posenet
from bench.timing import compare
from edgetpu_driver.engines.cpu_operators.posenet_decoder import Field, decode_poses
from edgetpu_driver.engines.litert_interpreter import make_interpreter
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract
from measured_figures.row import Row
from testdata import GOLDEN, MissingFileError
from testdata.pictures.posenet_maps import maps, person

AREA = "pose"
_HEIGHT, _WIDTH = 31, 41
_STRIDE = 16
_THRESHOLD, _RADIUS = 0.2, 10.0
_MODEL = "models/posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite"
_MAPS = ("float_heatmaps", "float_short_offsets", "float_mid_offsets")
_REAL = "real maps"
_REACH = {1: 1 / 40, 5: 1 / 20}

Maps = tuple[Field, Field, Field]
Picture = NDArray[np.uint8]


def rows() -> Iterator[Row]:
    """One row for each number of people."""
    try:
        kind, found = _REAL, _real_maps()
    except MissingFileError:
        kind, found = "made maps", _made_maps()
    for people, reach in _REACH.items():
        fields = found[people]
        suite = partial(decode_poses, *fields, stride=_STRIDE, score_threshold=_THRESHOLD, nms_radius=_RADIUS)
        plain = partial(baseline_posenet.decode, *fields, _STRIDE, _THRESHOLD, _RADIUS)
        if (suite().count, len(plain())) != (people, people):
            raise ValueError(f"expected {people} poses; got {suite().count} and {len(plain())}")
        who = "one person" if people == 1 else f"{people} people"
        case = f"poses of {who} from {kind} of {_HEIGHT}x{_WIDTH}"
        # Synthetic maps have one root per person; in real maps several roots lead to the same person.
        wanted = reach if kind == _REAL else None
        yield compare(suite, plain).row(AREA, case, "plain Python", wanted)


def _made_maps() -> dict[int, Maps]:
    rng = np.random.default_rng(0)
    places = [(float(rng.uniform(50, 250)), 60.0 + 130 * index) for index in range(max(_REACH))]
    return {people: maps(_HEIGHT, _WIDTH, [person(*each) for each in places[:people]]) for people in _REACH}


def _real_maps() -> dict[int, Maps]:
    """Maps of one and of five people by the number of people.

    Raises MissingFileError without the model and the pictures.
    """
    data = GOLDEN.path(_MODEL).read_bytes()
    one, two = _picture("squat"), _picture("test_image")[:, 160:460]
    alone = _on_canvas([(one, 160, 60, 320, 390)])
    group = _on_canvas([(two, 0, 40, 226, 370), (two[:, ::-1], 226, 40, 226, 370), (one, 452, 80, 189, 230)])
    image = parse_model(data).subgraphs[0].input_specs[0].name
    interpreter = make_interpreter("PoseNet", extract(data, [image], _MAPS))
    tensor = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(tensor, alone[None].shape)  # possible, since it has only convolutions
    interpreter.allocate_tensors()
    return {1: _maps(interpreter, alone), 5: _maps(interpreter, group)}


def _picture(name: str) -> Picture:
    """A picture of the test data, uint8 [height, width, 3], RGB; ValueError if it is unreadable."""
    path = GOLDEN.path(f"vision/pictures/{name}.bmp")
    pixels = cv2.imread(str(path))
    if pixels is None:
        raise ValueError(f"{path}: not a picture")
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)


def _on_canvas(parts: list[tuple[Picture, int, int, int, int]]) -> Picture:
    """Pictures on a grey canvas, each with its left and top edge, its width and its height, px."""
    canvas = np.full(((_HEIGHT - 1) * _STRIDE + 1, (_WIDTH - 1) * _STRIDE + 1, 3), 114, np.uint8)
    for picture, x, y, width, height in parts:
        canvas[y : y + height, x : x + width] = cv2.resize(
            picture, (width, height), interpolation=cv2.INTER_AREA
        )
    return canvas


def _maps(interpreter: Any, picture: Picture) -> Maps:
    """Heatmaps, short offsets and mid offsets of a picture."""
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], picture[None])
    interpreter.invoke()
    outputs = {each["name"]: each for each in interpreter.get_output_details()}
    heat, short, mid = (
        Field(interpreter.get_tensor(outputs[name]["index"])[0], *outputs[name]["quantization"])
        for name in _MAPS
    )
    return heat, short, mid
