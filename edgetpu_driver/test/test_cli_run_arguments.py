"""Arguments of `edgetpu run` that do not fit the model or the backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetpu_driver.cli.main import main


def test_a_graph_has_no_part_for_the_edge_tpu(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(graph), "--input", "x.npy", "--backend", "cpu", "--part", "1"]) == 1
    assert capsys.readouterr().err == (
        "edgetpu: --part is for models with parts for the Edge TPU; on this backend the model has none\n"
    )


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        (("y",), "expected --feedback OUTPUT=INPUT; got 'y'"),
        (("y=x", "y=z"), "expected --feedback once for each output; got 'y' again"),
    ],
)
def test_feedback_is_refused_where_it_is_ambiguous(
    graph: Path, capsys: pytest.CaptureFixture[str], feedback: tuple[str, ...], message: str
) -> None:
    options = [option for each in feedback for option in ("--feedback", each)]
    assert main(["run", str(graph), "--input", "x.npy", "--backend", "cpu", *options]) == 1
    assert capsys.readouterr().err == f"edgetpu: {message}\n"


@pytest.mark.parametrize(
    ("backend", "option", "reason"),
    [
        ("cpu", "--serial", "which has no stick"),
        ("cpu", "--port", "which has no stick"),
        ("cpu", "--firmware", "which has no stick"),
        ("virtual", "--serial", "which has one stick, with its firmware"),
        ("virtual", "--firmware", "which has one stick, with its firmware"),
    ],
)
@pytest.mark.parametrize("command", ["run x.tflite --input x.npy", "selftest"])
def test_options_that_would_be_ignored_are_refused(
    capsys: pytest.CaptureFixture[str], command: str, backend: str, option: str, reason: str
) -> None:
    assert main([*command.split(), "--backend", backend, option, "2-1"]) == 1
    assert capsys.readouterr().err == (
        f"edgetpu: expected no {option} with the backend {backend}, {reason}; got 2-1\n"
    )
