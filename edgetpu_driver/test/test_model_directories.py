"""Directories of models that cannot be used: what does not need them works."""

from __future__ import annotations

import difflib
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver.errors import BusyError, ModelNotFoundError, ModelUnsupportedError
from edgetpu_driver.files import compiled_file_names, default_paths
from edgetpu_driver.tflite.checks.file_checks import read_model_file
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.toolchain import dense_graph, model_directories
from edgetpu_driver.toolchain.model_directories import ModelDirectories
from edgetpu_driver.toolchain.retargeting import compiled_sources

_UNUSABLE = ["absent", "file", "file/below", "n" * 300, "circle", "~nobody-has-this-name/x"]


@pytest.fixture(params=_UNUSABLE, ids=lambda name: name[:12])
def unusable(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory that cannot be read, whoever runs the tests."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "circle").symlink_to("circle")
    name = str(request.param)
    return name if name.startswith("~") else str(tmp_path / name)


def adding() -> bytes:
    """A graph that gives y = x + x on int8[1, 4]."""
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    graph.output(graph.add(x, x, scale=1, zero_point=0, name="y"))
    return graph.build()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "sums.tflite").write_bytes(b"graph")
    return tmp_path / "good"


def test_models_of_the_other_directories_are_found_and_listed(unusable: str, good: Path) -> None:
    files = ModelDirectories([unusable, good], compiled=False, uncompiled=True)
    assert files.find("sums") == good / "sums.tflite"
    assert files.available() == [good / "sums.tflite"]


@pytest.mark.parametrize("empty", ["", " ", "$EDGETPU_NOTHING"])
def test_an_empty_entry_is_ignored_with_a_line(
    empty: str, good: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EDGETPU_NOTHING", "")
    assert ModelDirectories([empty, good], compiled=False, uncompiled=True).directories == (good,)
    assert f"an empty entry, which is ignored: {empty!r}" in caplog.text


def test_a_model_that_does_not_exist_is_not_found(unusable: str, good: Path) -> None:
    files = ModelDirectories([unusable, good], compiled=True, uncompiled=True)
    with pytest.raises(ModelNotFoundError, match="there are sums"):
        files.find("other")


@pytest.mark.parametrize(("count", "more"), [(9, ""), (10, " and more")])
def test_ten_models_are_listed_and_the_others_mentioned(good: Path, count: int, more: str) -> None:
    for number in range(count):
        (good / f"network_{number:03d}.tflite").write_bytes(b"graph")
    names = sorted(path.stem for path in good.glob("*.tflite"))[:10]
    with pytest.raises(ModelNotFoundError) as raised:
        ModelDirectories([good], compiled=False, uncompiled=True).find("other")
    assert str(raised.value) == f"no other.tflite in {good}; there are {', '.join(names)}{more}"


def test_a_wrong_name_is_compared_with_the_hundred_likeliest_files(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        (good / f"network_{number:03d}.tflite").write_bytes(b"graph")
    compared: list[int] = []
    get_close_matches = difflib.get_close_matches

    def counted(word: str, possibilities: list[str], n: int) -> list[str]:
        compared.append(len(possibilities))
        return get_close_matches(word, possibilities, n)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    files = ModelDirectories([good], compiled=False, uncompiled=True)
    with pytest.raises(ModelNotFoundError, match=r"did you mean sums\?"):
        files.find("sum")
    assert compared == [100]


def test_a_name_like_that_of_a_graph_that_cannot_be_loaded_is_not_suggested(good: Path) -> None:
    (good / "summit_edgetpu.tflite").write_bytes(b"compiled")
    files = ModelDirectories([good], compiled=True, uncompiled=False)
    with pytest.raises(ModelNotFoundError, match=r"did you mean summit\?$"):
        files.find("sum")


def test_of_thousands_of_files_a_hundred_are_examined_to_say_that_a_model_is_not_there(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        (good / f"network_{number:03d}.tflite").write_bytes(b"graph")
    examined: list[Path] = []

    def is_dense_file(path: Path) -> bool:
        examined.append(path)
        return False

    monkeypatch.setattr(model_directories, "_is_dense_file", is_dense_file)
    files = ModelDirectories([good], compiled=True, uncompiled=False)
    with pytest.raises(ModelNotFoundError) as raised:
        files.find("other")
    assert str(raised.value) == (
        f"no other_edgetpu.tflite in {good}; of the 1001 models there, the first 100 cannot be loaded here"
    )
    assert len(examined) == 100


def test_a_home_that_cannot_be_used_has_no_firmware(unusable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rclpy", reason="needs ROS 2")
    from edgetpu_driver.nodes.driver_parameters import default_firmware

    monkeypatch.setenv("ROS_HOME", unusable)
    assert default_firmware() == ""
    assert default_paths.default_model_dir().parts[-2:] == ("edgetpu", "models")


def test_a_graph_is_looked_into_once_until_its_file_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_into: list[Path] = []

    def read(path: Path) -> bytes:
        looked_into.append(path)
        return read_model_file(path)

    monkeypatch.setattr(model_directories, "read_model_file", read)
    graph = tmp_path / "matrix.tflite"
    graph.write_bytes(dense_graph.build(8))
    found = ModelDirectories([tmp_path], compiled=True, uncompiled=False)
    for _ in range(3):
        assert found.available() == [graph]
    assert looked_into == [graph]
    graph.write_bytes(b"damaged")
    assert found.available() == []


@pytest.mark.parametrize("compiled", ["", "other_edgetpu.tflite"], ids=["generated here", "retargeted"])
def test_a_graph_that_cannot_be_read_for_a_while_is_found_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: str
) -> None:
    """As where the process has no descriptor left."""

    def refuse(path: Path) -> bytes:
        raise ModelNotFoundError(f"cannot read {path}: Too many open files")

    graph = tmp_path / "graph.tflite"
    graph.write_bytes(adding() if compiled else dense_graph.build(8))
    if compiled:
        for name in (compiled, "other.tflite"):
            (tmp_path / name).write_bytes(adding())
    files = ModelDirectories([tmp_path], compiled=True, uncompiled=False)
    with monkeypatch.context() as exhausted:
        for module in (model_directories, compiled_sources):
            exhausted.setattr(module, "read_model_file", refuse)
        with pytest.raises(ModelUnsupportedError):
            files.find("graph")
    assert files.find("graph") == graph


def test_without_a_descriptor_a_listing_fails_instead_of_being_empty(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    files = ModelDirectories([good], compiled=False, uncompiled=True)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(os, "scandir", refuse)
        for ask in (files.available, lambda: files.find("other")):
            with pytest.raises(BusyError) as raised:
                ask()
            assert str(raised.value) == f"cannot list {good}: Too many open files; try again in 1 s"
            assert raised.value.retry_after == 1.0
    assert files.available() == [good / "sums.tflite"]


def test_a_directory_behind_a_link_that_may_not_be_read_has_no_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_path: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os.path, "realpath", refuse)
    assert ModelDirectories(["/locked"], compiled=True, uncompiled=True).available() == []


def test_a_file_is_found_by_its_name_with_a_suffix_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "sums.TFLITE").write_bytes(b"graph")
    files = ModelDirectories([tmp_path], compiled=False, uncompiled=True)
    assert files.find("sums.TFLITE") == tmp_path / "sums.TFLITE"


def test_a_name_longer_than_any_path_is_refused_at_once(tmp_path: Path) -> None:
    directories = ModelDirectories([tmp_path], compiled=False, uncompiled=True)
    with pytest.raises(ModelNotFoundError, match=r"path of at most 4096 characters; got 10000000$"):
        directories.find("n" * 10_000_000)


def test_a_listing_looks_once_for_the_graph_of_each_compiled_file(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for each graph that may be made from it: with 75 graphs and 150 files that took seconds."""
    compiled = [good / f"{name}_edgetpu.tflite" for name in "abc"]
    for path in (*compiled, good / "a.tflite", good / "sums.tflite", good / "more.tflite"):
        path.write_bytes(adding())
    looked: list[Path] = []

    def source_graph(path: Path) -> Path | None:
        looked.append(path)
        return compiled_file_names.source_graph(path)

    monkeypatch.setattr(compiled_sources, "source_graph", source_graph)
    listed = ModelDirectories([good], compiled=True, uncompiled=False).available()
    assert listed == [*compiled, good / "more.tflite", good / "sums.tflite"]
    assert looked == compiled


@pytest.mark.parametrize("path", [b"odd_\xff.tflite", b"odd_\xff/model.tflite"])
def test_a_file_whose_path_is_not_utf_8_is_refused_with_the_path(tmp_path: Path, path: bytes) -> None:
    file = tmp_path / os.fsdecode(path)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"")
    (tmp_path / "link.tflite").symlink_to(file)
    directories = ModelDirectories([tmp_path], compiled=False, uncompiled=True)
    with pytest.raises(ModelNotFoundError, match=r"^no model 'link': expected a path in UTF-8; got .*odd_"):
        directories.find("link")


def test_no_file_of_a_directory_whose_path_is_not_utf_8_is_listed(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"odd_\xff")
    odd.mkdir()
    (odd / "model.tflite").write_bytes(b"")
    (tmp_path / "models").symlink_to(odd)
    assert ModelDirectories([tmp_path / "models"], compiled=False, uncompiled=True).available() == []
