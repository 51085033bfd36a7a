"""The order in which waiting requests are run."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from math import inf

import pytest

from edgetpu_driver.host.requests.request_queue import LEAD, LONGEST_NEGLECT, STAY, RequestQueue, Staying

_numbers = count()


@dataclass(eq=False)
class Entry:
    client: str = ""
    priority: int = 2
    deadline: float = inf
    lane: Hashable = ""
    cost: float = 1.0
    name: str = ""
    due: float = inf
    passed_over: float = inf

    def __post_init__(self) -> None:
        self.sequence = next(_numbers)
        self.due = min(self.due, self.deadline)


@pytest.fixture
def queue() -> RequestQueue[Entry]:
    return RequestQueue()


def order(queue: RequestQueue[Entry]) -> str:
    """The names of all requests in the order in which they are run."""
    names = []
    while (entry := queue.pop(lambda _lane: True)) is not None:
        names.append(entry.name)
    return "".join(names)


def push(queue: RequestQueue[Entry], *entries: Entry) -> None:
    for entry in entries:
        queue.push(entry)


def test_the_most_urgent_class_goes_first(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry(priority=3, name="c"), Entry(priority=1, name="a"), Entry(priority=2, name="b"))
    assert order(queue) == "abc"


def test_requests_of_one_client_are_run_in_the_order_of_their_arrival(queue: RequestQueue[Entry]) -> None:
    push(queue, *(Entry(name=name, lane=lane) for name, lane in zip("abcd", "xyxy", strict=True)))
    assert order(queue) == "abcd"


def test_the_earliest_deadline_goes_first_and_those_without_one_last(queue: RequestQueue[Entry]) -> None:
    push(
        queue,
        Entry("1", name="d"),
        Entry("2", deadline=3.0, name="c"),
        Entry("3", deadline=1.0, name="a"),
        Entry("4", deadline=2.0, name="b"),
    )
    assert order(queue) == "abcd"


def test_a_deadline_does_not_bring_a_request_into_another_class(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry(priority=2, deadline=1.0, name="b"), Entry(priority=1, name="a"))
    assert order(queue) == "ab"


def test_a_request_that_has_begun_keeps_its_place_and_does_not_expire(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry("1", deadline=2.0, name="b"), Entry("2", due=1.0, lane="later step", name="a"))
    assert [entry.name for entry in queue.expire(1.5)] == []
    assert order(queue) == "ab"


def test_clients_take_turns(queue: RequestQueue[Entry]) -> None:
    push(queue, *(Entry("flood", name="f") for _ in range(4)), *(Entry("eager", name="e") for _ in range(2)))
    assert order(queue) == "fefeff"


def test_turns_are_as_long_as_the_work_is(queue: RequestQueue[Entry]) -> None:
    push(queue, *(Entry("long", cost=3.0, name="l") for _ in range(2)))
    push(queue, *(Entry("short", cost=1.0, name="s") for _ in range(4)))
    assert order(queue) == "lsssls"


def test_engine_time_beyond_the_expected_is_charged(queue: RequestQueue[Entry]) -> None:
    push(queue, *(Entry("a", name="a") for _ in range(2)), *(Entry("b", name="b") for _ in range(3)))
    first = queue.pop(lambda _lane: True)
    assert first is not None
    queue.charge("a", 2, 2.0)
    assert order(queue) == "bbba"


def test_anonymous_clients_share_one_account(queue: RequestQueue[Entry]) -> None:
    push(queue, *(Entry("", name="?") for _ in range(3)), Entry("named", name="n"))
    assert order(queue) == "?n??"


def test_a_client_with_deadlines_does_not_starve_one_without(queue: RequestQueue[Entry]) -> None:
    push(queue, *(Entry("hasty", deadline=1.0, cost=LEAD, name="h") for _ in range(4)))
    push(queue, *(Entry("calm", cost=LEAD, name="c") for _ in range(2)))
    assert order(queue) == "hchchh"


def test_a_client_that_returns_goes_first_but_does_not_catch_up_on_its_pause(
    queue: RequestQueue[Entry],
) -> None:
    push(queue, Entry("idle", name="i"))
    order(queue)
    push(queue, *(Entry("busy", name="b") for _ in range(10)))
    order(queue)
    push(queue, *(Entry("busy", name="b") for _ in range(3)), *(Entry("idle", name="i") for _ in range(3)))
    assert order(queue) == "iibibb"


def test_a_client_has_an_account_in_each_class(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry("a", priority=3, name="z"), Entry("a", priority=1, cost=9.0, name="x"))
    push(queue, Entry("b", priority=3, name="y"))
    queue.charge("a", 3, 5.0)
    assert order(queue) == "xyz"


def test_requests_that_cannot_be_run_now_are_passed_over(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry(lane="blocked", priority=1, name="a"), Entry(lane="free", name="b"))
    taken = queue.pop(lambda lane: lane == "free")
    assert taken is not None
    assert taken.name == "b"
    assert queue.pop(lambda lane: lane == "free") is None
    assert (queue.most_urgent(lambda _lane: True), queue.most_urgent(lambda lane: lane == "free")) == (
        1,
        None,
    )


def test_requests_expire_when_their_deadline_has_passed(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry(deadline=1.0, name="a"), Entry(deadline=2.0, name="b"), Entry(name="c"))
    assert [entry.name for entry in queue.expire(1.5)] == ["a"]
    assert order(queue) == "bc"


def test_a_request_expires_also_behind_one_that_has_begun_and_was_due_earlier(
    queue: RequestQueue[Entry],
) -> None:
    push(queue, Entry(due=1.0, name="a"), Entry(deadline=2.0, name="b"), Entry(deadline=3.0, name="c"))
    assert [entry.name for entry in queue.expire(2.5)] == ["b"]
    assert order(queue) == "ac"


def test_requests_are_removed_in_the_order_of_their_arrival(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry("1", name="a"), Entry("2", priority=1, name="b"), Entry("1", deadline=1.0, name="c"))
    assert [entry.name for entry in queue.remove(lambda entry: entry.name in "ab")] == ["a", "b"]
    assert order(queue) == "c"


def test_it_counts_what_waits(queue: RequestQueue[Entry]) -> None:
    push(queue, Entry("a", cost=1.0), Entry("a", cost=2.0), Entry("b", cost=4.0))
    assert (len(queue), queue.waiting_of("a"), queue.cost) == (3, 2, 7.0)
    order(queue)
    assert (len(queue), queue.waiting_of("a"), queue.cost) == (0, 0, 0)


def test_accounts_of_clients_that_are_gone_are_forgotten(queue: RequestQueue[Entry]) -> None:
    for number in range(5000):
        push(queue, Entry(f"client {number}"))
        order(queue)
        queue.charge("steady", 2, 1.0)
    assert len(queue._classes[2]._served) < 1200


class TestStaying:
    """Lanes in capitals are those of models whose parameters are in memory."""

    def pop(self, queue: RequestQueue[Entry], now: float) -> str:
        entry = queue.pop(lambda _lane: True, Staying(lambda lane: str(lane).isupper(), now))
        assert entry is not None
        return entry.name

    def names(self, queue: RequestQueue[Entry], now: float = 10.0) -> str:
        return "".join(self.pop(queue, now) for _ in range(len(queue)))

    def test_requests_that_need_no_upload_go_first(self, queue: RequestQueue[Entry]) -> None:
        push(queue, *(Entry(lane=lane, name=lane) for lane in "aBaBa"))
        assert self.names(queue) == "BBaaa"

    def test_of_those_that_need_one_the_next_is_the_first_to_have_come(
        self, queue: RequestQueue[Entry]
    ) -> None:
        push(queue, *(Entry(lane=lane, name=lane) for lane in "abab"))
        assert self.names(queue) == "abab"

    def test_not_before_a_more_urgent_class(self, queue: RequestQueue[Entry]) -> None:
        push(queue, Entry(lane="B", name="B"), Entry(lane="a", name="a", priority=1))
        assert self.names(queue) == "aB"

    def test_a_request_is_passed_over_for_a_limited_time(self, queue: RequestQueue[Entry]) -> None:
        push(queue, Entry(lane="a", name="a"), *(Entry(lane="B", name="B") for _ in range(3)))
        stay = STAY[2]
        assert [self.pop(queue, 10.0 + after) for after in (0.0, 0.9 * stay, 1.1 * stay)] == ["B", "B", "a"]

    def test_a_request_whose_deadline_is_near_is_not_passed_over(self, queue: RequestQueue[Entry]) -> None:
        push(queue, Entry(lane="a", name="a", deadline=11.0), Entry(lane="B", name="B", deadline=12.0))
        assert self.names(queue, now=11.0 - STAY[2] / 2) == "aB"

    def test_a_client_goes_before_others_by_no_more_engine_time_than_that(
        self, queue: RequestQueue[Entry]
    ) -> None:
        cost = 0.4 * STAY[2]
        push(
            queue,
            Entry("1", lane="a", name="a"),
            *(Entry("2", lane="B", name="B", cost=cost) for _ in range(5)),
        )
        assert self.names(queue) == "BBBaBB"


class TestNeglect:
    """A class that more urgent ones keep from the engines gets a turn once in a while."""

    @staticmethod
    def classes_at(queue: RequestQueue[Entry], *times: float) -> list[int]:
        """The classes of the requests that are taken out at these times."""
        taken = [queue.pop(lambda _lane: True, now=now) for now in times]
        return [entry.priority for entry in taken if entry is not None]

    def test_it_gets_one_turn_each_time_it_has_waited_too_long(self, queue: RequestQueue[Entry]) -> None:
        push(queue, *(Entry(priority=priority) for priority in 9 * [1] + 9 * [3]))
        step = 0.4 * LONGEST_NEGLECT
        assert self.classes_at(queue, *(step * number for number in range(9))) == [1, 1, 1, 3, 1, 1, 3, 1, 1]

    def test_it_gets_a_turn_on_each_engine(self, queue: RequestQueue[Entry]) -> None:
        push(queue, *(Entry(priority=priority) for priority in 9 * [1] + 9 * [3]))
        step = 0.6 * LONGEST_NEGLECT
        taken = [
            queue.pop(lambda _lane: True, now=step * number, engine=engine)
            for number in range(3)
            for engine in (0, 1)
        ]
        assert [entry.priority for entry in taken if entry is not None] == [1, 1, 1, 1, 3, 3]

    def test_its_wait_begins_with_its_first_request(self, queue: RequestQueue[Entry]) -> None:
        push(queue, *(Entry(priority=1) for _ in range(4)))
        assert self.classes_at(queue, 0.0) == [1]
        push(queue, Entry(priority=2))
        assert self.classes_at(queue, 10.0, 10.0 + 0.9 * LONGEST_NEGLECT, 10.0 + 1.1 * LONGEST_NEGLECT) == [
            1,
            1,
            2,
        ]

    def test_a_turn_of_its_own_counts(self, queue: RequestQueue[Entry]) -> None:
        push(queue, Entry(priority=2), Entry(priority=2))
        assert self.classes_at(queue, 0.0) == [2]
        push(queue, Entry(priority=1), Entry(priority=1))
        assert self.classes_at(queue, 0.9 * LONGEST_NEGLECT, 1.1 * LONGEST_NEGLECT) == [1, 2]

    def test_requests_that_cannot_be_run_get_none(self, queue: RequestQueue[Entry]) -> None:
        push(
            queue,
            Entry(priority=1, lane="free"),
            Entry(priority=1, lane="free"),
            Entry(priority=2, lane="held"),
        )
        taken = [queue.pop(lambda lane: lane == "free", now=now) for now in (0.0, 2 * LONGEST_NEGLECT)]
        assert [entry.priority for entry in taken if entry is not None] == [1, 1]
