"""The report is one page that opens from disk and shows what the nodes measured."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rosbags", reason="needs rosbags")

from demo.bag.frames import Frame, evenly_spaced, read_frames
from demo.bag.image_bag import ImageBag
from demo.bag.recorded_truth import Truth, load_truth
from demo.nodes import NODES
from demo.report.report import write_report
from demo.report.results import NodeResults, Row
from demo.scene.scene_bag import write_scene
from edgetpu_dashboard.scene.scene import Scene

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
    write_report(path, [NODE], {NODE.name: results}, {NODE.name: truth}, {NODE.name: frames}, settings)
    return path.read_text()


@pytest.fixture(scope="module")
def page(scene: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of results that are right."""
    return report(scene, tmp_path_factory.mktemp("page") / "report.html")


def frames_of(page: str) -> list[dict[str, Any]]:
    """The frames of the only player of the page."""
    (text,) = re.findall(r'data-frames="([^"]*)"', page)
    return list(json.loads(html.unescape(text)))


def test_it_needs_nothing_but_itself(page: str) -> None:
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links
    assert all(link.startswith(("data:image/jpeg;base64,", "#")) for link in links)
    assert "<script src" not in page
    assert "&lt;scene&gt;" in page


def test_its_contents_list_links_to_every_node(page: str) -> None:
    contents = page[page.index("<nav") : page.index("</nav>")]
    assert re.findall(r'href="#([^"]*)"', contents) == ["spot_tracker", "summary", "settings"]
    assert all(f'id="{name}"' in page for name in ("spot_tracker", "summary", "settings"))


def test_its_player_has_every_frame_with_the_true_position(scene: Path, page: str) -> None:
    frames = frames_of(page)
    truth = load_truth(scene)["spot_tracker"]
    lit = truth.at(Scene().stamp_ns(0), "x")
    assert len(frames) == 6
    assert frames[0]["true"][0] == pytest.approx((lit + 1) / 2 * 319 + 0.5)
    # The lamp is off in one of the six.
    assert [frame["true"] is None for frame in frames] == [False, False, False, True, False, False]
    assert frames[3]["caption"] == "0.10 s  not valid"


def test_its_verdict_on_results_that_are_right_is_good(page: str) -> None:
    assert '"verdict good">5 of 6 results valid, 6 of 6 right' in page
    assert "<b>0.0000 half image widths</b><span>RMSE of x</span>" in page


def test_its_verdict_on_results_that_are_off_is_bad(scene: Path, tmp_path: Path) -> None:
    page = report(scene, tmp_path / "report.html", offset=0.2)
    assert '"verdict bad">5 of 6 results valid, 1 of 6 right' in page
    assert "<b>0.2000 half image widths</b><span>RMSE of x</span>" in page


@pytest.mark.parametrize(
    ("valid", "verdict"),
    [(10, '"verdict good">10 of 10'), (5, '"verdict incomplete">5 of 10'), (0, '"verdict bad">0 of 10')],
)
def test_without_a_truth_its_verdict_goes_by_valid_results(
    tmp_path: Path, valid: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.report.report.plot", lambda *_: "")  # a second each
    rows: list[Row] = [
        {"stamp_ns": number, "valid": number < valid, "confidence": 1.0, "x": 0.0, "y": 0.0}
        for number in range(10)
    ]
    for row in rows:
        row.update(dict.fromkeys(NODE.results.fields[2:], 0.0))
    results = NodeResults(NODE.name, NODE.topic, 10, 0, rows, [0.001] * 10)
    settings = {"bag": "", "topic": "", "backend": ""}
    write_report(tmp_path / "page.html", [NODE], {NODE.name: results}, {}, {NODE.name: []}, settings)
    assert f"{verdict} results valid" in (tmp_path / "page.html").read_text()


def test_without_any_result_it_says_so(scene: Path, tmp_path: Path) -> None:
    nothing = NodeResults(NODE.name, NODE.topic, images=6, malformed=4)
    page = report(scene, tmp_path / "report.html", results=nothing)
    assert '"verdict bad">0 of 0 results valid, 4 images refused as malformed, 2 images lost' in page
    assert [frame["caption"][8:] for frame in frames_of(page)] == ["no result"] * 6


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
