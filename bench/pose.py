"""Poses from PoseNet's maps of 31x41 cells. Baseline: the same in plain Python, keypoint by keypoint.

The maps are those of a real PoseNet for pictures with one and with five people, on a background of 31x41
cells; without the model they are made for people who stand still.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from bench import plain_posenet
from bench.timing import compare
from edgetpu_driver.cpu_operators.posenet_decoder import Field, decode_poses
from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.tflite.subgraph_extraction import extract
from measured_figures.row import Row
from testdata import GOLDEN, MissingFileError
from testdata.posenet_maps import maps, person

AREA = "pose"
_HEIGHT, _WIDTH = 31, 41
_STRIDE = 16
_THRESHOLD, _RADIUS = 0.2, 10.0
_MODEL = "models/posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite"
_MAPS = ("float_heatmaps", "float_short_offsets", "float_mid_offsets")
_REACH = {1: 1 / 40, 5: 1 / 20}

Maps = tuple[Field, Field, Field]
Picture = NDArray[np.uint8]


def rows() -> Iterator[Row]:
    """One row for each number of people."""
    try:
        kind, found = "real maps", _real_maps()
    except MissingFileError:
        kind, found = "made maps", _made_maps()
    for people, reach in _REACH.items():
        fields = found[people]
        suite = partial(decode_poses, *fields, stride=_STRIDE, score_threshold=_THRESHOLD, nms_radius=_RADIUS)
        plain = partial(plain_posenet.decode, *fields, _STRIDE, _THRESHOLD, _RADIUS)
        if (suite().count, len(plain())) != (people, people):
            raise ValueError(f"expected {people} poses; got {suite().count} and {len(plain())}")
        who = "one person" if people == 1 else f"{people} people"
        case = f"poses of {who} from {kind} of {_HEIGHT}x{_WIDTH}"
        yield compare(suite, plain).row(AREA, case, "plain Python", reach)


def _made_maps() -> dict[int, Maps]:
    rng = np.random.default_rng(0)
    places = [(float(rng.uniform(50, 250)), 60.0 + 130 * index) for index in range(max(_REACH))]
    return {people: maps(_HEIGHT, _WIDTH, [person(*each) for each in places[:people]]) for people in _REACH}


def _real_maps() -> dict[int, Maps]:
    """Maps of one and of five people; MissingFileError without the model and the pictures."""
    data = GOLDEN.path(_MODEL).read_bytes()
    one, two = _picture("squat"), _picture("test_image")[:, 160:460]
    graph = parse_model(data).subgraphs[0]
    engine = CpuEngine(extract(data, [graph.input_specs[0].name], _MAPS))
    _, height, width, _ = engine.inputs[0].shape
    alone = _on_canvas(height, width, [(one, 90, 0, 289, 353)])
    group = _on_canvas(
        height, width, [(two, 0, 30, 170, 272), (two[:, ::-1], 170, 30, 170, 272), (one, 340, 60, 141, 172)]
    )
    return {1: _maps(engine, alone), 5: _maps(engine, group)}


def _picture(name: str) -> Picture:
    """RGB."""
    path = GOLDEN.path(f"vision/pictures/{name}.bmp")
    pixels = cv2.imread(str(path))
    if pixels is None:
        raise ValueError(f"{path}: not a picture")
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)


def _on_canvas(height: int, width: int, parts: list[tuple[Picture, int, int, int, int]]) -> Picture:
    """Pictures on grey, each with its left and upper edge, its width and its height."""
    canvas = np.full((height, width, 3), 114, np.uint8)
    for picture, x, y, columns, rows in parts:
        canvas[y : y + rows, x : x + columns] = cv2.resize(
            picture, (columns, rows), interpolation=cv2.INTER_AREA
        )
    return canvas


def _maps(engine: CpuEngine, picture: Picture) -> Maps:
    """A picture's maps in the middle of 31x41 cells of background."""
    outputs = engine.run({engine.inputs[0].name: picture[None]})
    heat, short, mid = (
        Field.of(_framed(outputs[spec.name][0], 0 if spec.name == _MAPS[0] else spec.zero_point), spec)
        for spec in (next(each for each in engine.outputs if each.name == name) for name in _MAPS)
    )
    return heat, short, mid


def _framed(values: NDArray[np.uint8], background: int) -> NDArray[np.uint8]:
    height, width, channels = values.shape
    result = np.full((_HEIGHT, _WIDTH, channels), background, np.uint8)
    top, left = (_HEIGHT - height) // 2, (_WIDTH - width) // 2
    result[top : top + height, left : left + width] = values
    return result
