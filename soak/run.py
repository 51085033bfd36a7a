"""One run: starts the graph, injects faults, samples its processes, and gathers the findings."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetpu_driver.node_kit.executor.held_interrupts import held_interrupts
from soak.chaos.chaos import Chaos
from soak.chaos.chaos_schedule import make_schedule
from soak.outcome_journal import Journal
from soak.process_samples import Sample, sample
from soak.processes import Processes
from soak.run_evaluation import Findings, Images, Interval, gather
from soak.run_setup import RESULT_CHECKER, SOURCES, Stage

_STEP = 0.05
"""Longest time between two checks of the schedule, s."""
_SAMPLE_PERIOD = 3.0
"""Time between two samples of memory, threads and descriptors, s."""


@dataclass(frozen=True)
class Options:
    """The settings of a run."""

    seconds: float
    """Duration, s; in simulated time, the limit of the real duration."""
    simulated_hours: float
    """Simulated time, hours; 0: the run is in real time."""
    sticks: int
    seed: int
    output: Path
    calm: bool = False
    """Whether the run is without chaos."""


def run(options: Options) -> Findings:
    """Run, and return the findings. The output directory is replaced."""
    stage = Stage.prepare(options.output, options.sticks, options.seed, options.simulated_hours)
    os.environ.update(stage.environment)
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    # The suite's executor takes many answers in a round. The middleware delivers a client the answers to all
    # clients of a service; rclpy's executor takes one a round, so the client could lose its own.
    from edgetpu_driver.node_kit.executor.executor import make_executor

    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # KeyboardInterrupt ends it
    node = rclpy.create_node("soak_chaos")
    executor = make_executor()
    executor.add_node(node)
    processes = Processes(options.output / "logs", stage.environment)
    try:
        for command in stage.commands(options.seconds):
            processes.start(command)
        return _Run(options, stage, processes, node, executor).result()
    finally:
        processes.stop()
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


class _Run:
    """The loop of a run."""

    def __init__(
        self, options: Options, stage: Stage, processes: Processes, node: Any, executor: Any
    ) -> None:
        self._options, self._stage, self._processes, self._executor = options, stage, processes, executor
        nodes = processes.nodes
        schedule = (
            [] if options.calm else make_schedule(options.seed, options.seconds, options.sticks, nodes, nodes)
        )
        journal = Journal(stage.journal("chaos"))
        self._chaos = Chaos(
            node,
            processes,
            schedule,
            journal,
            options.output / "chaos.jsonl",
            options.seed,
            options.sticks,
            stage.frames,
        )
        self._journal = journal
        self._samples: list[Sample] = []
        self._begin = self._next_sample = time.monotonic()

    def result(self) -> Findings:
        """Run to the end, or until it is interrupted."""
        with contextlib.suppress(KeyboardInterrupt):
            self._run()
        end = time.monotonic()
        is_interrupted = end - self._begin < self._options.seconds and not self._is_over()
        if is_interrupted:
            print(f"[soak] interrupted after {(end - self._begin) / 60:.1f} min", flush=True)
        self._journal.flush(now=True)
        self._processes.stop()
        time_ = Interval(self._begin, end)
        stage, planned = self._stage, self._options.seconds
        images = Images(stage.images_done(), stage.images) if stage.images else None
        found = gather(stage.journals(), time_, planned, self._samples, self._chaos, self._processes, images)
        return replace(found, is_interrupted=is_interrupted)

    def _run(self) -> None:
        while time.monotonic() - self._begin < self._options.seconds and not self._is_over():
            with held_interrupts():
                self._executor.spin_once(_STEP)
            self._chaos.step()
            for ended in self._processes.watch():
                print(
                    f"[soak] {ended.process} ended unexpectedly, status {ended.status}: {ended.last_line}",
                    flush=True,
                )
            if time.monotonic() >= self._next_sample:
                self._next_sample += _SAMPLE_PERIOD
                self._sample()

    def _is_over(self) -> bool:
        """Whether all images of a run in simulated time have been published; False in real time."""
        return 0 < self._stage.images <= self._stage.images_done()

    def _sample(self) -> None:
        now = time.monotonic()
        for name, (pid, started) in self._processes.pids().items():
            if name in (SOURCES, RESULT_CHECKER):
                continue
            found = sample(name, pid, now, started)
            if found is not None:
                self._samples.append(found)
