"""The report is one page that opens from disk and shows whether tracking worked."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from demo.bag import ImageBag
from demo.frames import Frame, evenly_spaced, read_frames
from demo.nodes import NODES
from demo.report import write_report
from demo.results import NodeResults, Row
from demo.scene import Scene, write_scene
from demo.truth import Truth, load_truth

NODE = NODES["spot_tracker"]


def rows_like(truth: Truth, offset: float) -> list[Row]:
    """Results that are off the truth by `offset` in every value."""
    rows: list[Row] = []
    for stamp in truth.stamps_ns:
        valid = truth.at(stamp, "valid") is True
        row: Row = {
            "stamp": stamp * 1e-9,
            "stamp_ns": stamp,
            "valid": valid,
            "confidence": 0.9 if valid else 0.0,
        }
        for value in NODE.values:
            true = truth.at(stamp, value.field)
            row[value.field] = math.nan if true is None else float(true) + offset
            row[f"{value.field}_sigma"] = 0.01
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scene(tmp_path_factory.mktemp("report") / "scene", Scene(frames=6, dark=(0.1, 0.13)))


def report(scene: Path, path: Path, offset: float = 0.0, results: NodeResults | None = None) -> str:
    truth = load_truth(scene)["spot_tracker"]
    rows = rows_like(truth, offset)
    latencies = [0.001 * (i + 1) for i in range(len(rows))]
    results = results or NodeResults(NODE.name, NODE.topic, len(rows), 0, rows, latencies)
    with ImageBag(scene) as bag:
        frames = list(read_frames(bag))
    settings = {"bag": "<scene>", "topic": "/camera/image_raw", "backend": "cpu"}
    write_report(path, [NODE], {NODE.name: results}, {NODE.name: truth}, frames, settings)
    return path.read_text()


def test_it_needs_nothing_but_itself(scene: Path, tmp_path: Path) -> None:
    page = report(scene, tmp_path / "report.html")
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links
    assert all(link.startswith(("data:image/jpeg;base64,", "#")) for link in links)
    assert "<script" not in page
    assert "&lt;scene&gt;" in page


def test_it_shows_every_frame_with_what_was_measured_and_what_is_true(scene: Path, tmp_path: Path) -> None:
    page = report(scene, tmp_path / "report.html")
    assert page.count("<image ") == 6
    # The beacon is off in one of the six.
    assert page.count('class="measured"') == page.count('class="true"') == 5
    assert "nothing measured" in page


@pytest.mark.parametrize(
    ("offset", "verdict"),
    [
        (0.0, '"verdict good">6 of 6 images answered, 6 right'),
        (0.2, '"verdict bad">6 of 6 images answered, 1 right'),
    ],
)
def test_its_verdict_is_whether_the_results_are_right(
    scene: Path, tmp_path: Path, offset: float, verdict: str
) -> None:
    page = report(scene, tmp_path / "report.html", offset)
    assert verdict in page
    assert f"<b>{abs(offset):.4f} half image widths</b><span>RMSE of x</span>" in page


def test_without_any_result_it_says_so(scene: Path, tmp_path: Path) -> None:
    nothing = NodeResults(NODE.name, NODE.topic, images=6, malformed=4)
    page = report(scene, tmp_path / "report.html", results=nothing)
    assert '"verdict bad">0 of 6 images answered, 0 right, 4 refused as malformed, 2 lost' in page
    assert page.count("no result") == 6


def test_frames_are_evenly_spaced_with_first_and_last() -> None:
    assert evenly_spaced(5, 12) == [0, 1, 2, 3, 4]
    assert evenly_spaced(101, 3) == [0, 50, 100]
    assert evenly_spaced(1, 12) == [0]


def test_frames_know_the_size_of_the_image(scene: Path) -> None:
    with ImageBag(scene) as bag:
        first, last = read_frames(bag, 2)
    assert isinstance(first, Frame)
    assert (first.number, first.width, first.height, first.stamp_ns) == (0, 320, 240, Scene().stamp_ns(0))
    assert last.number == 5
