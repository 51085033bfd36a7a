"""Creates LiteRT interpreters without their log lines; refuses graphs that would crash the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from edgetpu_driver.engines.litert_package import install_command
from edgetpu_driver.engines.process_lock import ProcessLock
from edgetpu_driver.errors import DependencyMissingError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.files.memory_file import memory_file

if TYPE_CHECKING:
    from edgetpu_driver.tflite.model_reader import Subgraph

LARGEST_SCALE = 1e30
"""Largest scale passed to LiteRT. Uncritical: far above those of models and far below float32's limit."""

_LARGEST_SUM_RATIO = 2**19  # of input scale to output scale, in LiteRT's ADD and SUB kernels
_GREETING = b"Created TensorFlow Lite XNNPACK delegate"
_greeting_lock = ProcessLock()
_greeted = threading.Event()


def refuse_fatal_scales(name: str, graph: Subgraph) -> None:
    """Raise ModelUnsupportedError for scales that would make LiteRT abort the process."""
    for tensor in graph.tensors:
        scales = tensor.quantization.scales
        if np.any((scales < np.finfo(np.float32).tiny) | (scales > LARGEST_SCALE)):
            raise ModelUnsupportedError(f"{name}: LiteRT cannot use the scale of '{tensor.name}'")
    for operator in graph.operators:
        if operator.name not in ("ADD", "SUB"):
            continue
        largest = max((graph.tensors[index].spec.scale for index in operator.inputs), default=0.0)
        for result in (graph.tensors[index].spec for index in operator.outputs):
            if result.scale and largest / result.scale >= _LARGEST_SUM_RATIO:
                raise ModelUnsupportedError(
                    f"{name}: the scale {result.scale:g} of {result} is too small for a sum of inputs "
                    f"with scale {largest:g}"
                )


def first_line(error: Exception) -> str:
    """The first line of a LiteRT error, which may have a stack trace or be empty."""
    return str(error).partition("\n")[0] or "no reason given; the memory limit may be too low"


def interpreter_class() -> Any:
    """LiteRT's Interpreter; DependencyMissingError if ai-edge-litert is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise DependencyMissingError(
            f"running models on the CPU needs LiteRT: {install_command()} ({error})"
        ) from None
    return Interpreter


def make_interpreter(name: str, data: bytes, xnnpack: bool = True) -> Any:
    """Create an interpreter and allocate its tensors.

    name: of the model, for messages. xnnpack: False for LiteRT's own kernels, which are equally correct but
    round differently. They also run graphs that XNNPACK rejects, such as old ones that resize to another
    scale.

    Raises DependencyMissingError, ModelFormatError, ModelUnsupportedError.
    """
    try:
        return _interpreter(name, data, xnnpack)
    except ModelUnsupportedError:
        if not xnnpack:
            raise
    return _interpreter(name, data, False)


def _interpreter(name: str, data: bytes, xnnpack: bool) -> Any:
    new_interpreter = interpreter_class()
    with _without_greeting():
        try:
            # The default operator resolver uses XNNPACK: 2 to 15 times faster than the reference kernels
            # (gabor_64x64_p4: 0.09 ms, not 1.5 ms), and it rescales sums by one float32 factor, as the Edge
            # TPU does. The reference kernels' fixed-point factor differs from that by 1 in < 1 % of values.
            options = {} if xnnpack else {"experimental_op_resolver_type": _own_kernels()}
            interpreter = new_interpreter(model_content=data, num_threads=1, **options)
        except ValueError as error:
            raise ModelFormatError(f"{name}: LiteRT refuses the file: {error}") from None
        try:
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise ModelUnsupportedError(f"{name}: LiteRT cannot run the graph: {first_line(error)}") from None
    return interpreter


def _own_kernels() -> Any:
    from ai_edge_litert.interpreter import OpResolverType

    return OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


@contextmanager
def _without_greeting() -> Iterator[None]:
    """Suppress the line that LiteRT writes to stderr once per process, and nothing else."""
    with _greeting_lock:
        if _greeted.is_set():
            yield
            return
        try:
            stderr = os.dup(2)
        except OSError:  # the process has no stderr
            yield
            return
        with memory_file() as captured:
            os.dup2(captured.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(stderr, 2)
                os.close(stderr)
                _pass_on(captured)


def _pass_on(captured: IO[bytes]) -> None:
    """Write what was captured to stderr, without the greeting."""
    captured.seek(0)
    for line in captured:
        if _GREETING in line:
            _greeted.set()
        else:
            os.write(2, line)
