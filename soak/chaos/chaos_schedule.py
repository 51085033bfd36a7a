"""The schedule of faults and changes, made from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from edgetpu_driver.node_kit.node_table import DRIVER
from edgetpu_driver.virtual.fault_injection import Fault, Transfer, can_strike

START_SECONDS = 30.0
"""Time without actions after the start of the run, and without kills after the start of another driver, s.
All nodes load their models in it, so that memory a minute after the start includes all models."""
END_SECONDS = 20.0
"""Time without actions at the end, in which every node has to recover, s."""
BUSY_SECONDS, QUIET_SECONDS = 30.0, 15.0
"""Lengths of the alternating turns with and without actions, s; no failure is excused in a quiet turn."""

LIGHT_LOAD_SECONDS = 12.0
"""Time at the end of a quiet turn with a light load, s: six for the backlog of a saturated computer, and six
in which every node has to publish."""


class Kind(Enum):
    """What an action does, with its arguments in brackets."""

    FAULT = "fault"
    """A USB fault [name of the fault and of the transfer]."""
    UNPLUG = "unplug"
    """A stick is unplugged and returns after `seconds`."""
    KILL = "kill"
    """A node [its name] is killed with SIGKILL and started again after `seconds`."""
    KILL_CHILD = "kill_child"
    """A child process of the driver that runs LiteRT is killed; the driver starts another."""
    DEACTIVATE = "deactivate"
    """The driver is deactivated and activated again after `seconds`."""
    CLEAN_UP = "clean_up"
    """The driver is deactivated, cleaned up, configured and activated."""
    BAD_TRANSITION = "bad_transition"
    """The driver is asked to configure while it is active, which it has to refuse."""
    RESET = "reset"
    """The driver's ~/reset is called."""
    SWAP = "swap"
    """The weights of a perception node [its name] are set by its service, to their present values."""
    PARAMETER = "parameter"
    """A parameter is set [node, name, value], which has to be accepted."""
    BAD_PARAMETER = "bad_parameter"
    """A parameter is set [node, name, value], which has to be refused."""
    MALFORMED = "malformed"
    """A malformed message is published [topic, kind of damage]."""
    BAD_REQUEST = "bad_request"
    """A malformed request is sent to the driver [kind], which has to refuse it."""
    CALM = "calm"
    """All sticks are plugged in, pending faults are cancelled, and the driver is activated."""


@dataclass(frozen=True)
class Action:
    """One action of the schedule."""

    time: float
    """Time since the start of the run, s."""
    kind: Kind
    arguments: tuple[str, ...] = ()
    stick: int = 0
    after: int = 0
    """Number of transfers that succeed before a fault."""
    times: int = 1
    seconds: float = 0.0


MEAN_SECONDS = {
    Kind.FAULT: 1.0,
    Kind.UNPLUG: 25.0,
    Kind.KILL: 25.0,
    Kind.KILL_CHILD: 30.0,
    Kind.DEACTIVATE: 60.0,
    Kind.CLEAN_UP: 90.0,
    Kind.BAD_TRANSITION: 30.0,
    Kind.RESET: 40.0,
    Kind.SWAP: 5.0,
    Kind.PARAMETER: 5.0,
    Kind.BAD_PARAMETER: 5.0,
    Kind.MALFORMED: 1.0,
    Kind.BAD_REQUEST: 3.0,
}
"""Mean time between two actions of a kind in the turns with actions, s."""

TOPICS = (
    "/looking/image",
    "/looking/camera_info",
    "/driving/image",
    "/driving/camera_info",
    "/signal",
    "/embedding",
)
"""Topics on which malformed messages are published."""
IMAGE_DAMAGE = ("truncated", "flipped", "short", "encoding", "empty")
OTHER_DAMAGE = ("truncated", "flipped", "values")
BAD_REQUESTS = ("model", "shape", "dtype", "size", "weights", "batch")

PARAMETERS = (
    ("spot_tracker", "min_confidence", "0.21"),
    ("optical_flow", "min_confidence", "0.19"),
    ("visual_compass", "rate_limit", "0.0"),
    ("looming", "roi", "[0, 0, 0, 0]"),
    ("pattern_tracker", "min_confidence", "0.2"),
    ("place_recognition", "count", "3"),
    ("reservoir", "regularization", "1.0e-6"),
)
"""Changes of parameters that do not affect the results."""
BAD_PARAMETERS = (
    ("spot_tracker", "min_confidence", "2.0"),
    ("optical_flow", "min_confidence", "nan"),
    ("visual_compass", "rate_limit", "-1.0"),
    ("looming", "roi", "[0, 0, -5, 3]"),
    ("looming", "size", "128"),
    ("pattern_tracker", "template", "/no/such/file"),
    ("place_recognition", "min_score", "5.0"),
    ("spectrum", "length", "32"),
    ("edgetpu", "backend", "usb"),
    ("edgetpu", "status_period", "0.0"),
)
"""Changes of parameters that every node has to refuse."""


def make_schedule(
    seed: int, seconds: float, sticks: int, nodes: Sequence[str], killed_nodes: Sequence[str]
) -> list[Action]:
    """All actions of a run, in order. nodes: all nodes of the run; killed_nodes: those that are killed."""
    chance = random.Random(seed)
    actions: list[Action] = []
    for kind, mean in MEAN_SECONDS.items():
        fill = _Fill(chance, kind, sticks, tuple(nodes))
        actions += [fill(time) for time in _times(chance, mean, seconds)]
    names = list(killed_nodes)
    chance.shuffle(names)
    actions = _killing(names, sorted(actions, key=lambda action: action.time))
    actions += [Action(time, Kind.CALM) for time in quiet_begins(seconds)]
    return sorted(actions, key=lambda action: action.time)


def _killing(names: Sequence[str], actions: Sequence[Action]) -> list[Action]:
    """The actions, in order, with the nodes to kill: each node in turn, so that all live equally long.

    Kills within START_SECONDS of the start of another driver are left out.
    """
    turns = itertools.cycle(names)
    kept: list[Action] = []
    free_from = 0.0
    for action in actions:
        if action.time < free_from:
            continue
        if action.kind is Kind.KILL:
            action = replace(action, arguments=(next(turns),))
            if action.arguments == (DRIVER,):
                free_from = action.time + action.seconds + START_SECONDS
        kept.append(action)
    return kept


def is_quiet(time: float, seconds: float) -> bool:
    """Whether `time`, s since the start of a run of `seconds`, is in a turn without actions."""
    if not START_SECONDS <= time < seconds - END_SECONDS:
        return True
    return (time - START_SECONDS) % (BUSY_SECONDS + QUIET_SECONDS) >= BUSY_SECONDS


def has_light_load(time: float, seconds: float) -> bool:
    """Whether clients are to send one request at a time: shortly before the end of each quiet turn.

    At other times they send more than the computer can handle, and a silent node may only be waiting.
    """
    return any(end - LIGHT_LOAD_SECONDS <= time for end in quiet_ends(seconds) if time <= end)


def quiet_begins(seconds: float) -> list[float]:
    """The times at which quiet turns begin, s; the last turn lasts to the end."""
    begins = [end - QUIET_SECONDS for end in quiet_ends(seconds)[:-1]]
    return [*begins, max(seconds - END_SECONDS, 0.0)]


def quiet_ends(seconds: float) -> list[float]:
    """The times at which quiet turns end, s, including the end of the run."""
    turn = BUSY_SECONDS + QUIET_SECONDS
    ends = []
    end = START_SECONDS + turn
    while end < seconds - END_SECONDS:
        ends.append(end)
        end += turn
    return [*ends, seconds]


def _times(chance: random.Random, mean: float, seconds: float) -> Iterator[float]:
    time = START_SECONDS
    while (time := time + chance.expovariate(1 / mean)) < seconds:
        if not is_quiet(time, seconds):
            yield time


class _Fill:
    """Draws the arguments of an action of one kind."""

    def __init__(
        self,
        chance: random.Random,
        kind: Kind,
        sticks: int,
        nodes: tuple[str, ...],
    ) -> None:
        self._chance, self._kind, self._sticks = chance, kind, sticks
        self._nodes = nodes
        self._fills: dict[Kind, Callable[[float], Action]] = {
            Kind.FAULT: self._fault,
            Kind.KILL: self._kill,
            Kind.MALFORMED: self._malformed,
        }

    def __call__(self, time: float) -> Action:
        fill = self._fills.get(self._kind)
        if fill is not None:
            return fill(time)
        chance = self._chance
        pools: dict[Kind, Sequence[tuple[str, ...]]] = {
            Kind.SWAP: (("spot_tracker",), ("pattern_tracker",)),
            Kind.PARAMETER: [each for each in PARAMETERS if each[0] in self._nodes],
            Kind.BAD_PARAMETER: [each for each in BAD_PARAMETERS if each[0] in self._nodes],
            Kind.BAD_REQUEST: [(each,) for each in BAD_REQUESTS],
        }
        arguments = chance.choice(pools[self._kind]) if self._kind in pools else ()
        stick, seconds = chance.randrange(self._sticks), chance.uniform(0.3, 3.0)
        return Action(time, self._kind, arguments, stick=stick, seconds=seconds)

    def _fault(self, time: float) -> Action:
        chance = self._chance
        fault = chance.choice(tuple(Fault))
        transfer = chance.choice([each for each in Transfer if can_strike(fault, each)])
        return Action(
            time,
            Kind.FAULT,
            (fault.name, transfer.name),
            stick=chance.randrange(self._sticks),
            after=chance.randrange(30),
            times=chance.choice((1, 1, 1, 2, 4)),
            seconds=chance.uniform(0.3, 3.0),
        )

    def _kill(self, time: float) -> Action:
        """Kill a node, which `_killing` chooses later."""
        return Action(time, Kind.KILL, seconds=self._chance.uniform(0.2, 2.0))

    def _malformed(self, time: float) -> Action:
        topic = self._chance.choice(TOPICS)
        kinds = IMAGE_DAMAGE if topic.endswith("image") else OTHER_DAMAGE
        return Action(time, Kind.MALFORMED, (topic, self._chance.choice(kinds)))
