"""What the long run (`make soak`) takes from result messages."""

from __future__ import annotations

import pytest

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from builtin_interfaces.msg import Time

from demo.scene.scene_truth import median_displacement
from edgetpu_msgs.msg import Flow
from soak.checks.perception_checks import LOOKING, PerceptionChecks
from soak.outcome_journal import Outcome
from soak.result_messages import perception_result
from soak.scenes import FRAMES, LookingAround, Stamps

STAMPS = Stamps(0, 100_000_000)


@pytest.mark.parametrize(
    ("sigma", "outcome"), [(0.25, Outcome.WRONG), (0.3, Outcome.RIGHT), (1.5, Outcome.NOT_JUDGED)]
)
def test_an_error_of_a_flow_is_judged_by_the_sigma_in_its_message(sigma: float, outcome: Outcome) -> None:
    earlier, now = FRAMES - 1, FRAMES + 1
    dx, dy = median_displacement(LookingAround(), earlier, now % FRAMES)
    message = Flow(valid=True, dx=dx + 1.1, dy=dy, dx_sigma=sigma, dy_sigma=sigma)
    message.header.frame_id = LOOKING
    message.header.stamp = stamp(now)
    message.previous_stamp = stamp(earlier)
    assert PerceptionChecks(STAMPS).judge("optical_flow", perception_result(message))[0] is outcome


def stamp(index: int) -> Time:
    """Time of an image."""
    seconds, nanoseconds = divmod(STAMPS.stamp_ns(index), 1_000_000_000)
    return Time(sec=seconds, nanosec=nanoseconds)
