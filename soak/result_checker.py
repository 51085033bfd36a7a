"""Checks all results of the nodes: `python -m soak.result_checker JOURNAL START_NS PERIOD_NS`."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import QoSProfile

from edgetpu_driver.node_kit.messages.message_stamps import nanoseconds_of
from edgetpu_msgs.srv import TrainReadout
from soak.checks.matrix_checks import PlaceCheck, PredictionCheck, ReadoutTraining, judge_spectrum
from soak.checks.perception_checks import CAMERAS, PerceptionChecks
from soak.checks.seen_stamps import SeenStamps
from soak.outcome_journal import Journal, Judgement, Outcome
from soak.result_messages import MATRIX_TOPICS, perception_result, result_topics, spectrum_result
from soak.scenes import Stamps

_DEPTH = 500
_ANSWER_SECONDS = 10.0
"""Time without an answer after which the training is requested again, s: the node may have been killed."""


class ResultChecker(Node):
    """Subscribes to the results of all nodes, and writes their outcomes to a journal."""

    def __init__(self, journal: Journal, stamps: Stamps) -> None:
        super().__init__("soak_result_checker")
        self._journal, self._stamps = journal, stamps
        self._perception = PerceptionChecks(stamps)
        self._place, self._prediction = PlaceCheck(), PredictionCheck()
        self._seen = {node: SeenStamps() for node in MATRIX_TOPICS}
        self._training = ReadoutTraining()
        self._answer: Any = None
        self._asked = 0.0
        for name, (kind, topic) in {**result_topics(CAMERAS), **MATRIX_TOPICS}.items():
            self.create_subscription(kind, topic, self._receiver(name), QoSProfile(depth=_DEPTH))
        self._train = self.create_client(TrainReadout, "/reservoir/train_readout")
        self.create_timer(Journal.PERIOD, self._journal.flush)

    def _receiver(self, name: str) -> Any:
        judge = self._judge_perception if name in CAMERAS else self._judge_matrix

        def receive(message: Any) -> None:
            now = time.monotonic()
            outcome, detail = judge(name, message)
            self._journal.add(outcome, name, now, detail)

        return receive

    def _judge_perception(self, name: str, message: Any) -> Judgement:
        return self._perception.judge(name, perception_result(message))

    def _judge_matrix(self, name: str, message: Any) -> Judgement:
        stamp = nanoseconds_of(message.header.stamp)
        index = self._stamps.index(stamp)
        if index is None:
            return Outcome.WRONG, f"no sample has the stamp {stamp}"
        if not self._seen[name].is_new(stamp):
            return Outcome.WRONG, f"a second result for sample {index}"
        if name == "spectrum":
            return judge_spectrum(spectrum_result(message), self._stamps.period)
        if name == "place_recognition":
            score = message.scores[0] if message.scores else float("nan")
            return self._place.judge(index, message.valid, message.label, score)
        self._keep_trained(message)
        value = message.values[0] if message.values else float("nan")
        return self._prediction.judge(index, message.step, message.valid and self._training.is_good, value)

    def _keep_trained(self, message: Any) -> None:
        """Train the readout of a reservoir that was restarted, or whose training was disturbed."""
        wanted = self._training.wants(message.valid, message.samples)
        asks = self._answer is not None and time.monotonic() - self._asked < _ANSWER_SECONDS
        if wanted and not asks and self._train.service_is_ready():
            self._asked = time.monotonic()
            self._answer = self._train.call_async(TrainReadout.Request(forget=True))
            self._answer.add_done_callback(self._on_trained)

    def _on_trained(self, future: Any) -> None:
        answer, self._answer = future.result(), None
        if answer.success:
            self._training.done(answer.samples, max(answer.residual_rms))


def main() -> int:
    """Check results until a signal; ROS arguments follow."""
    journal = Journal(Path(sys.argv[1]))
    rclpy.init(args=sys.argv[4:])
    node = ResultChecker(journal, Stamps(int(sys.argv[2]), int(sys.argv[3])))
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)
    journal.flush(now=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
