"""Memory that is shared with the process of a graph, where the system has too little of it."""

from __future__ import annotations

import errno
import gc
import os

import numpy as np
import pytest

from edgetpu_driver.engines.cpu_engine import CpuEngine
from edgetpu_driver.engines.litert_process import _memory
from edgetpu_driver.errors import ProcessStartError
from edgetpu_driver.tflite.graph_builder import GraphBuilder

pytest.importorskip("ai_edge_litert", reason="the CPU engine needs ai-edge-litert")

X = np.array([[1, -2, 3, 100]], np.int8)


def doubling() -> bytes:
    """A graph that gives y = 2 x on int8[1, 4]."""
    graph = GraphBuilder()
    x = graph.input("x", (1, 4), np.int8, scale=1, zero_point=0)
    graph.output(graph.add(x, x, scale=1, zero_point=0, name="y"))
    return graph.build()


def no_space(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_all_of_it_is_there_before_it_is_used() -> None:
    """Otherwise the first access to a page that the system does not have ends the driver with SIGBUS."""
    descriptor = _memory(1 << 20)
    status = os.fstat(descriptor)
    os.close(descriptor)
    assert (status.st_size, status.st_blocks * 512) == (1 << 20, 1 << 20)


def test_a_graph_without_it_is_refused_and_no_descriptor_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal() -> str:
        with pytest.raises(ProcessStartError) as raised:
            CpuEngine(doubling(), isolated=True)
        return str(raised.value)

    CpuEngine(doubling(), isolated=True).close()  # starts the launching thread
    gc.collect()  # what earlier tests left open would be closed meanwhile
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", no_space)
        assert {refusal() for _ in range(5)} == {
            "the model: the process that runs the graph cannot share memory with this one: No space left on "
            "device"
        }
    assert len(os.listdir("/proc/self/fd")) <= before
    engine = CpuEngine(doubling(), isolated=True)
    assert engine.run({"x": X})["y"].tolist() == [[2, -4, 6, 127]]
    engine.close()
