"""The level of a node's entry of /diagnostics."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from diagnostic_msgs.msg import DiagnosticStatus

from edgetpu_driver.node_kit.diagnostics import CounterDiagnostic, Counters


@pytest.mark.parametrize(
    ("problems", "needs_user", "level", "message"),
    [
        ([], False, DiagnosticStatus.OK, "ok"),
        (["looking for the driver"], False, DiagnosticStatus.WARN, "looking for the driver"),
        (["no such model"], True, DiagnosticStatus.ERROR, "no such model"),
    ],
)
def test_only_what_a_user_has_to_change_is_an_error(
    problems: list[str], needs_user: bool, level: bytes, message: str
) -> None:
    diagnostic = CounterDiagnostic("tracker", "images")
    status = diagnostic.status(Counters(received=1), problems, needs_user=needs_user)
    assert (status.level, status.message) == (level, message)


@pytest.mark.parametrize(("needs_user", "message"), [(False, "slow; no images"), (True, "slow")])
def test_silence_is_not_mentioned_next_to_an_error(needs_user: bool, message: str) -> None:
    diagnostic = CounterDiagnostic("tracker", "images")
    assert diagnostic.status(Counters(), ["slow"], needs_user=needs_user).message == message


def test_malformed_messages_are_told_with_what_was_wrong_with_the_last_one() -> None:
    diagnostic = CounterDiagnostic("tracker", "images")
    fault = "expected a step of at least 640; got 320"
    counters = Counters(received=5, malformed=2, last_malformed=fault)
    status = diagnostic.status(counters, [])
    assert status.message == f"2 malformed images, the last: {fault}"
    assert diagnostic.status(Counters(received=6, malformed=2, last_malformed=fault), []).message == "ok"


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (
            1,
            "1 malformed image: too short; 1 failed inference; 1 dropped image; "
            "1 unreadable message or request; 1 unexpected error",
        ),
        (
            2,
            "2 malformed images, the last: too short; 2 failed inferences; 2 dropped images; "
            "2 unreadable messages or requests; 2 unexpected errors",
        ),
    ],
)
def test_what_was_lost_is_counted(count: int, message: str) -> None:
    lost = dict.fromkeys(("malformed", "failed", "dropped", "unreadable", "errors"), count)
    counters = Counters(received=5, last_malformed="too short", **lost)
    assert CounterDiagnostic("tracker", "images").status(counters, []).message == message
