"""Runs Google's edgetpu_compiler and parses its reports.

Text and options are those of versions 2 to 16 (coral.ai/docs/edgetpu/compiler, logs in the issues of
github.com/google-coral/edgetpu). It takes several models at once and then shares the chip's memory between
them, "co-compilation". It exists for Linux on x86-64 only.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetpu_driver.errors import CompilerError

PROGRAM = "edgetpu_compiler"

RunCompiler = Callable[[Sequence[Path], Path, float], str]
"""Compiles graphs together into a directory, within a number of seconds, and returns the printed output."""

_MAPPED = "Mapped to Edge TPU"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_TAIL_LINES = 4  # lines of a failed run's output in error messages
_SECONDS_TO_DIE = 5.0
"""Seconds to wait for a killed process, which ends at once unless it waits for a disk."""

_VERSION = re.compile(r"^Edge TPU Compiler version (\S+)", re.MULTILINE)
_OPERATOR = re.compile(r"^([A-Za-z]\w*)[ \t]+(\d+)[ \t]+(\S.*?)\s*$", re.MULTILINE)
_INPUT = re.compile(r"^Input model: ", re.MULTILINE)
_OUTPUT = re.compile(r"^Output model: (\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class OperatorStatus:
    """Mapping status of operators with the same name."""

    name: str
    count: int
    mapped: bool
    status: str
    """The compiler's wording: "Mapped to Edge TPU", or the reason why not."""


@dataclass(frozen=True)
class CompilationReport:
    """The compiler's report on one model; missing figures are -1."""

    version: str
    operators: tuple[OperatorStatus, ...]
    cached_bytes: int
    """Chip memory used for cached parameters, bytes."""
    free_bytes: int
    """Chip memory left for parameters by all co-compiled models, bytes."""
    streamed_bytes: int
    """Parameters streamed with every inference, bytes."""
    subgraphs: int
    """Number of parts that run on the Edge TPU, which the compiler calls subgraphs."""

    @property
    def fully_mapped(self) -> bool:
        """Whether all operators run on the Edge TPU."""
        return bool(self.operators) and all(operator.mapped for operator in self.operators)


@dataclass(frozen=True)
class Compilation:
    """Result of compiling one graph."""

    graph: Path
    compiled: Path
    """Expected path of the model; it may be missing even after a successful run."""
    log: Path | None
    report: CompilationReport
    last_lines: str
    """The last lines that the compiler printed, about all graphs."""


def find_compiler(program: str | None = None) -> str | None:
    """The compiler to run: the given one, or the one in PATH; None if PATH has none.

    Raises CompilerError if the given path is not executable.
    """
    found = shutil.which(program or PROGRAM)
    if found is None and program is not None:
        raise CompilerError(f"expected the program {PROGRAM}; {program} is not an executable file")
    return found


def compile_command(graph: Path | str) -> str:
    """The command that compiles a graph for a real stick: on another computer if there is no compiler here.

    Without a compiler and --on it would pack the graph for the virtual stick.
    """
    elsewhere = "" if find_compiler() else " --on USER@COMPUTER"
    return f"edgetpu models compile {shlex.quote(str(graph))}{elsewhere}"


def compile_graphs(
    compiler: str | RunCompiler, graphs: Sequence[Path], directory: Path, timeout: float
) -> tuple[Compilation, ...]:
    """Compile graphs together into an existing directory.

    compiler: a local program, or a function that runs one elsewhere. timeout: seconds. Raises CompilerError,
    with the compiler's message, if it times out or fails, even if only for one graph; its processes have
    ended then, as after an interruption.
    """
    stems = [graph.stem for graph in graphs]
    if len(set(stems)) != len(stems):
        raise CompilerError(f"expected graphs of different names to compile together; got {', '.join(stems)}")
    if isinstance(compiler, str):
        paths = [str(graph.resolve()) for graph in graphs]
        output = _run([compiler, "-s", "-o", str(directory.resolve()), *paths], timeout)
    else:
        output = compiler(graphs, directory, timeout)
    sections = _sections(output, len(graphs))
    return tuple(
        _compilation(graph, directory, section, output)
        for graph, section in zip(graphs, sections, strict=True)
    )


def parse_report(text: str) -> CompilationReport:
    """Parse the compiler's output on one model, or its log file."""
    version = _VERSION.search(text)
    return CompilationReport(
        version=version.group(1) if version else "",
        operators=tuple(_operator(match) for match in _OPERATOR.finditer(text)),
        cached_bytes=_memory(text, "On-chip memory used for caching model parameters"),
        free_bytes=_memory(text, "On-chip memory (?:remaining|available) for caching model parameters"),
        streamed_bytes=_memory(text, "Off-chip memory used for streaming uncached model parameters"),
        subgraphs=_number(text, "Number of Edge TPU subgraphs"),
    )


def _operator(match: re.Match[str]) -> OperatorStatus:
    name, count, status = match.groups()
    return OperatorStatus(name, int(count), status == _MAPPED, status)


def _memory(text: str, label: str) -> int:
    found = re.search(rf"^{label}: (\d+(?:\.\d+)?)\s*([KMG]?)i?B", text, re.MULTILINE)
    return round(float(found.group(1)) * _UNITS[found.group(2)]) if found else -1


def _number(text: str, label: str) -> int:
    found = re.search(rf"^{label}: (\d+)", text, re.MULTILINE)
    return int(found.group(1)) if found else -1


def _sections(output: str, count: int) -> list[str]:
    """The output on each model, in order, each preceded by the common header."""
    starts = [match.start() for match in _INPUT.finditer(output)]
    if len(starts) != count:
        return [output] if count == 1 else ["".join(output.splitlines()[:1])] * count
    head = output[: starts[0]]
    ends = [*starts[1:], len(output)]
    return [head + output[start:end] for start, end in zip(starts, ends, strict=True)]


def _compilation(graph: Path, directory: Path, section: str, output: str) -> Compilation:
    named = _OUTPUT.search(section)
    compiled = directory / (Path(named.group(1)).name if named else f"{graph.stem}_edgetpu.tflite")
    log, report = compiled.with_suffix(".log"), parse_report(section)
    if not log.is_file():
        return Compilation(graph, compiled, None, report, last_lines(output))
    # The log lists all operators; the printed output may omit mapped ones.
    operators = parse_report(log.read_text(errors="replace")).operators or report.operators
    return Compilation(graph, compiled, log, replace(report, operators=operators), last_lines(output))


def _run(command: Sequence[str], timeout: float) -> str:
    """Run the compiler in its own process group and return its output."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CompilerError(
            f"cannot run {command[0]}: {error.strerror} (the compiler exists for Linux on x86-64 only)"
        ) from error
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise CompilerError(f"{PROGRAM} did not finish within {timeout:g} s and was stopped") from None
    finally:
        _stop(process)
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise CompilerError(f"{PROGRAM} was killed by {name}: {last_lines(output)}")
    if process.returncode:
        raise CompilerError(f"{PROGRAM} failed: {last_lines(output)}")
    return output


def _stop(process: subprocess.Popen[str]) -> None:
    """Kill the compiler and its child processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(_SECONDS_TO_DIE)


def last_lines(output: str) -> str:
    """The last lines of a program's output, which say why it failed, as one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not _VERSION.match(line)]
    return "; ".join(lines[-_TAIL_LINES:]) or "it printed nothing"
