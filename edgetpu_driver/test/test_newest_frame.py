"""One frame at a time; few wait, the newest at least, and the others are counted."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from edgetpu_driver.node_kit.images.newest_frame import MAX_WAIT, PATIENCE, Backlog, NewestFrame


class Work:
    """Records started frames; refuses while not ready."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ready = True

    def start(self, frame: int) -> bool:
        if self.ready:
            self.begun.append(frame)
        return self.ready


class Clock:
    """A clock that advances by `step` seconds each time that it is read."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


LONG, SHORT = 1.01 * MAX_WAIT, MAX_WAIT / 100


def test_an_idle_worker_begins_at_once() -> None:
    work = Work()
    gate = NewestFrame(work.start)
    gate.offer(1)
    assert (work.begun, gate.dropped) == ([1], 0)


def test_frames_that_arrive_in_a_short_delay_are_all_processed() -> None:
    work = Work()
    gate = NewestFrame(work.start)
    for frame in range(PATIENCE + 1):
        gate.offer(frame)
    for _ in range(PATIENCE + 1):
        gate.finished()
    assert (work.begun, gate.dropped) == ([0, 1, 2, 3, 4, 5, 6, 7, 8], 0)


def test_of_more_frames_than_that_the_oldest_are_replaced_and_counted() -> None:
    work = Work()
    gate = NewestFrame(work.start)
    for frame in range(PATIENCE + 3):
        gate.offer(frame)
    for _ in range(PATIENCE + 1):
        gate.finished()
    assert (work.begun, gate.dropped) == ([0, 3, 4, 5, 6, 7, 8, 9, 10], 2)


def test_work_that_stays_late_gets_the_newest_frame_until_none_waits() -> None:
    work = Work()
    gate = NewestFrame(work.start, Clock(LONG))
    gate.offer(0)
    for frame in range(1, PATIENCE + 2):  # at each end of work a frame waits
        gate.offer(frame)
        gate.finished()
    del work.begun[:]
    for frame in (10, 11, 12):
        gate.offer(frame)
    gate.finished()
    assert (work.begun, gate.dropped) == ([12], 2)
    gate.finished()  # nothing waits: it has caught up
    for frame in (20, 21, 22):
        gate.offer(frame)
    gate.finished()
    assert (work.begun, gate.dropped) == ([12, 20, 21], 2)


def test_work_at_which_frames_wait_briefly_is_not_too_slow() -> None:
    work = Work()
    gate = NewestFrame(work.start, Clock(SHORT))
    gate.offer(0)
    for frame in range(1, 2 * PATIENCE):
        gate.offer(frame)
        if frame > 1:  # two frames wait at each end of work
            gate.finished()
    assert gate.dropped == 0


def test_a_node_that_needs_most_of_its_cameras_period_works_off_a_delay() -> None:
    period, work, clock = 1 / 150, Work(), Clock(0.0)
    gate = NewestFrame(work.start, clock)
    arrived = 0
    for done in range(100):
        due = 4 + int(done * 0.9)  # four frames have waited, and work takes 0.9 periods
        for frame in range(arrived, due):
            gate.offer(frame)
        arrived = due
        clock.now += 0.9 * period
        gate.finished()
    assert (gate.dropped, arrived - len(work.begun)) == (0, 0)


def test_a_frame_that_could_not_be_begun_waits_for_resume() -> None:
    work = Work()
    work.ready = False
    gate = NewestFrame(work.start)
    gate.offer(1)
    gate.offer(2)
    work.ready = True
    gate.resume()
    assert (work.begun, gate.dropped) == ([2], 1)


def test_frames_skipped_in_the_middleware_count_too() -> None:
    gate = NewestFrame(Work().start)
    gate.offer(7, replaced=3)
    assert gate.dropped == 3


def test_work_that_ends_before_start_returns_frees_the_gate() -> None:
    begun: list[int] = []

    def start(frame: int) -> bool:
        begun.append(frame)
        gate.finished()
        return True

    gate = NewestFrame(start)
    for frame in (1, 2, 3):
        gate.offer(frame)
    assert (begun, gate.dropped) == ([1, 2, 3], 0)


def test_a_frame_whose_start_raises_does_not_block_the_next() -> None:
    begun: list[int] = []

    def start(frame: int) -> bool:
        if frame == 1:
            raise ValueError("a frame like no other")
        begun.append(frame)
        return True

    gate = NewestFrame(start)
    with pytest.raises(ValueError, match="like no other"):
        gate.offer(1)
    gate.offer(2)
    assert begun == [2]


def test_a_frame_that_was_put_back_is_worked_on_again() -> None:
    work = Work()
    gate = NewestFrame(work.start)
    gate.offer(1)
    gate.put_back(1)
    assert work.begun == [1]
    gate.resume()
    assert (work.begun, gate.dropped) == ([1, 1], 0)


def test_a_frame_that_was_put_back_gives_way_to_a_newer_one() -> None:
    work = Work()
    gate = NewestFrame(work.start)
    gate.offer(1)
    gate.offer(2)
    gate.put_back(1)
    gate.resume()
    assert (work.begun, gate.dropped) == ([1, 2], 1)


def test_frames_queued_in_a_hiccup_are_all_processed() -> None:
    backlog = Backlog[int]()
    assert backlog.select([1]) == ([1], 0)
    assert backlog.select([2, 3, 4]) == ([2, 3, 4], 0)
    assert backlog.select([5, 6]) == ([5, 6], 0)


def test_a_node_that_stays_behind_takes_the_newest_frame() -> None:
    backlog = Backlog[int](Clock(LONG))
    for _ in range(PATIENCE):
        assert backlog.select([1, 2]) == ([1, 2], 0)
    assert backlog.select([3, 4, 5]) == ([5], 2)
    assert backlog.select([6, 7]) == ([7], 1)


def test_a_node_that_has_caught_up_may_have_another_hiccup() -> None:
    backlog = Backlog[int](Clock(LONG))
    for _ in range(PATIENCE + 1):
        backlog.select([1, 2])
    backlog.select([3])
    assert backlog.select([4, 5]) == ([4, 5], 0)


def test_a_node_that_looks_often_takes_all_frames() -> None:
    backlog = Backlog[int](Clock(SHORT))
    for _ in range(2 * PATIENCE):
        assert backlog.select([1, 2]) == ([1, 2], 0)
