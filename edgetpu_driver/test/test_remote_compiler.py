"""edgetpu_compiler on another computer, with an ssh that runs commands here."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetpu_driver.cli.main import main
from edgetpu_driver.errors import CompilerError, InputError
from edgetpu_driver.toolchain.remote_compiler import RemoteCompiler
from testdata.timeouts import PATIENCE

Run = Callable[[str], Path]

SSH = """\
#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
[ "$1" = builder ] || { echo "ssh: Could not resolve hostname $1" >&2; exit 255; }
PATH="$FARAWAY:$PATH" exec sh -c "$2"
"""
COMPILER = """\
#!/bin/sh
[ "$1 $2 $3" = "-s -o out" ] || exit 2
shift 3
for graph; do cp "$graph" "out/$(basename "$graph" .tflite)_edgetpu.tflite"; done
echo "Edge TPU Compiler version 16.0"
"""


@pytest.fixture(autouse=True)
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Give this computer an ssh; a function that gives the other one a compiler, and returns its path."""
    here, there = tmp_path / "here", tmp_path / "there"
    for directory, name, content in ((here, "ssh", SSH), (there, "edgetpu_compiler", "")):
        directory.mkdir()
        write(directory / name, content)
    (there / "edgetpu_compiler").unlink()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "there"))
    monkeypatch.setenv("FARAWAY", str(there))
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}/usr/bin:/bin")
    return lambda content: write(there / "edgetpu_compiler", content)


def write(path: Path, content: str) -> Path:
    path.write_text(content)
    path.chmod(0o755)
    return path


@pytest.fixture
def graphs(tmp_path: Path) -> list[Path]:
    """Two files with names that a shell would take apart."""
    paths = [tmp_path / "one.tflite", tmp_path / "the $other; one's.tflite"]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 100)
    return paths


def test_results_come_back(far: Run, graphs: list[Path], tmp_path: Path) -> None:
    far(COMPILER)
    (tmp_path / "out").mkdir()
    assert RemoteCompiler("builder")(graphs, tmp_path / "out", PATIENCE) == "Edge TPU Compiler version 16.0\n"
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert made == {
        "one_edgetpu.tflite": bytes(100),
        "the $other; one's_edgetpu.tflite": bytes([1]) * 100,
    }


def test_nothing_is_left_there(far: Run, graphs: list[Path], tmp_path: Path) -> None:
    far(COMPILER)
    (tmp_path / "out").mkdir()
    RemoteCompiler("builder")(graphs, tmp_path / "out", PATIENCE)
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["edgetpu_compiler"]


def test_a_program_of_another_name_is_run(far: Run, graphs: list[Path], tmp_path: Path) -> None:
    program = far(COMPILER).rename(tmp_path / "there" / "my compiler")
    (tmp_path / "out").mkdir()
    assert RemoteCompiler("builder", str(program))(graphs[:1], tmp_path / "out", PATIENCE).startswith(
        "Edge TPU"
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "edgetpu_compiler on builder failed: it printed nothing"),
        ("#!/bin/sh\necho ERROR: no; exit 1", "edgetpu_compiler on builder failed: ERROR: no"),
        (None, "there is no edgetpu_compiler on builder: install it there"),
    ],
)
def test_a_failure_on_the_other_computer_is_reported(
    far: Run, graphs: list[Path], tmp_path: Path, content: str | None, told: str
) -> None:
    if content is not None:
        far(content or "#!/bin/sh\nexit 1")
    with pytest.raises(CompilerError, match=told):
        RemoteCompiler("builder")(graphs, tmp_path, PATIENCE)


def test_a_computer_that_cannot_be_reached_is_named(graphs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="nobody cannot be reached: ssh: Could not resolve hostname"):
        RemoteCompiler("nobody")(graphs, tmp_path, PATIENCE)


def test_without_ssh_its_package_is_named(
    graphs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerError, match="apt install openssh-client"):
        RemoteCompiler("builder")(graphs, tmp_path, PATIENCE)


def test_a_compiler_that_takes_too_long_is_stopped(far: Run, graphs: list[Path], tmp_path: Path) -> None:
    far(f"#!/bin/sh\nsleep {2 * PATIENCE:g}")
    with pytest.raises(
        CompilerError, match="edgetpu_compiler on builder did not finish within 1 s and was stopped"
    ):
        RemoteCompiler("builder")(graphs, tmp_path, 1.0)


@pytest.mark.parametrize("answer", [b"welcome", b""])
def test_another_answer_is_refused(graphs: list[Path], tmp_path: Path, answer: bytes) -> None:
    write(tmp_path / "here" / "ssh", f"#!/bin/sh\nprintf %s {answer.decode()}")
    with pytest.raises(CompilerError, match="builder sent something other than compiled models"):
        RemoteCompiler("builder")(graphs, tmp_path, PATIENCE)


def test_files_elsewhere_are_not_written(graphs: list[Path], tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as opened:
        for name in (".status", "../escaped", "/tmp/escaped"):
            member = tarfile.TarInfo(name)
            member.size = 1
            opened.addfile(member, io.BytesIO(b"0"))
    (tmp_path / "archive").write_bytes(archive.getvalue())
    write(tmp_path / "here" / "ssh", f"#!/bin/sh\ncat {tmp_path}/archive")
    (tmp_path / "out").mkdir()
    RemoteCompiler("builder")(graphs, tmp_path / "out", PATIENCE)
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "", "a;b"])
def test_what_names_no_computer_is_refused(host: str) -> None:
    with pytest.raises(InputError, match="expected a destination for ssh"):
        RemoteCompiler(host)


def test_every_graph_of_the_suite_is_compiled_with_one_command(
    far: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far(f"#!{sys.executable}\nprint('no model'); raise SystemExit(1)")
    code = main(["models", "compile", "--all", "--on", "builder", "--output", str(tmp_path / "m"), "--json"])
    value = json.loads(capsys.readouterr().out)
    assert (code, value["compiler"]) == (1, "edgetpu_compiler on builder")
    names = {Path(row["graph"]).name for row in value["models"]}
    assert {"dense_256.tflite", "dense_512.tflite", "dense_1024.tflite"} <= names
    assert {row["error"] for row in value["models"]} == {"edgetpu_compiler on builder failed: no model"}


@pytest.mark.parametrize("arguments", [[], ["--all", "x.tflite"]])
def test_graphs_are_named_or_all(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["models", "compile", *arguments])
    assert left.value.code == 2
    assert re.search("one of the arguments FILE --all is required|not allowed with", capsys.readouterr().err)
