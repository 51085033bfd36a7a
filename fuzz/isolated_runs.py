"""Runs damaged graphs as the driver runs users' graphs: checked, then in LiteRT in a separate process."""

from __future__ import annotations

from collections import Counter

import numpy as np

from edgetpu_driver.engines.graph_runner import GraphOperands
from edgetpu_driver.engines.litert_interpreter import refuse_fatal_scales
from edgetpu_driver.engines.litert_process import LiteRtProcess
from edgetpu_driver.engines.litert_process_limits import ProcessLimits
from edgetpu_driver.errors import GraphProcessError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.tflite.checks.graph_checks import check_graph

_LIMITS = ProcessLimits(memory=256 << 20, load_seconds=1.0, run_seconds=1.0)


class IsolatedRuns:
    """Runs graphs in a process, which is replaced when it dies, and counts the outcomes."""

    def __init__(self, outcomes: Counter[str]) -> None:
        self._outcomes = outcomes
        self._process: LiteRtProcess | None = None

    def run(self, data: bytes) -> None:
        """Check and load a graph, and run it on zeros; raises ModelFormatError or ModelUnsupportedError."""
        try:
            graph = check_graph(data).subgraphs[0]
            refuse_fatal_scales("the graph", graph)
        except (ModelFormatError, ModelUnsupportedError):
            self._outcomes["refused by the checks"] += 1
            raise
        if self._process is None:
            self._process = LiteRtProcess("the graph", _LIMITS)
        try:
            self._process.load(data, GraphOperands.of(graph))
            self._process.run({spec.name: np.zeros(spec.shape, spec.dtype) for spec in graph.input_specs})
        except GraphProcessError as error:
            self._process = None
            self._outcomes[f"ended the process: {str(error).partition('the graph ')[2]}"] += 1
            raise
        except (ModelFormatError, ModelUnsupportedError):
            self._outcomes["refused by LiteRT"] += 1
            raise
        self._outcomes["ran"] += 1
