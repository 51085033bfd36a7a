"""The order in which waiting requests are run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from edgetpu_driver.host.requests.request_terms import Priority

LEAD = 0.005
"""Engine time, s, by which a client may have had more than another and still go first by its deadline.

A client that comes back after a pause starts with at most this advantage.
"""
STAY: Mapping[int, float] = {Priority.REAL_TIME: 0.002, Priority.NORMAL: 0.05, Priority.BULK: 0.05}
"""Seconds, by class, for which requests whose parameters are in memory may go before another one."""
LONGEST_NEGLECT = 0.05
"""Seconds after which a class that has requests gets a turn on an engine that more urgent classes keep busy.

A turn lasts for one piece of work, which delays a request of a more urgent class.
"""
_ACCOUNTS_KEPT = 1000
"""Clients whose share of the engines is remembered; limited, as clients may use ever new names."""


class Waiting(Protocol):
    """The properties of a request that determine its turn."""

    @property
    def client(self) -> str:
        """The client whose share of engine time it uses."""
        ...

    @property
    def priority(self) -> int:
        """Its class; a lower number goes first."""
        ...

    @property
    def deadline(self) -> float:
        """Steady time by which it must start, s; infinite without a deadline."""
        ...

    @property
    def due(self) -> float:
        """Time that determines its order: its deadline, or that of the request that it continues."""
        ...

    @property
    def sequence(self) -> int:
        """Sequence number of its arrival."""
        ...

    @property
    def lane(self) -> Hashable:
        """Equal for requests of which either all or none can be run at a given time."""
        ...

    @property
    def cost(self) -> float:
        """Expected engine time, s."""
        ...

    passed_over: float
    """When others were first run before it because their parameters were in memory, s; infinite: never."""


_Entry = TypeVar("_Entry", bound=Waiting)
MayRun = Callable[[Hashable], bool]
"""Whether the requests of a lane can be run now."""


class Staying(NamedTuple):
    """Lets requests whose parameters are in memory go before others of their class; see STAY."""

    is_resident: Callable[[Hashable], bool]
    """Whether the requests of a lane need no upload."""
    now: float


class RequestQueue(Generic[_Entry]):
    """Requests by class, deadline and client. Not thread-safe; reads no clock.

    Among the requests that can be run, the most urgent class goes first. Within a class, the earliest
    deadline goes first, among the clients that have had less than LEAD more engine time than the client with
    the least; without deadlines, the client with the least. A request whose parameters have to be uploaded
    lets those that need no upload go first for a while, unless its deadline is near. A class that has not had
    an engine for LONGEST_NEGLECT seconds gets a turn on it.
    """

    def __init__(self) -> None:
        self._classes: dict[int, _PriorityClass[_Entry]] = {}
        self._length = 0
        self._waiting: dict[str, int] = {}
        self._costs: dict[str, float] = {}

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[_Entry]:
        for each in self._classes.values():
            for bucket in each.buckets.values():
                yield from (entry for _, _, entry in bucket)

    def waiting_of(self, client: str) -> int:
        """Number of requests of a client."""
        return self._waiting.get(client, 0)

    @property
    def cost(self) -> float:
        """Expected engine time of all requests, s."""
        return sum(self._costs.values())

    def push(self, entry: _Entry) -> None:
        """Add a request."""
        self._class(entry.priority).push(entry)
        self._count(entry, 1)

    def pop(
        self,
        may_run: MayRun,
        staying: Staying | None = None,
        now: float | None = None,
        engine: Hashable = None,
    ) -> _Entry | None:
        """Take out the request that is to be run next; None if none can be run.

        now: the time, s; None: no neglected class gets a turn. engine: the engine that is to run it.
        """
        classes = self._classes
        neglected = [] if now is None else [key for key in classes if classes[key].is_neglected(now, engine)]
        for priority in (*neglected, *classes):
            entry = classes[priority].pop(may_run, staying, STAY[priority])
            if entry is not None:
                if now is not None:
                    classes[priority].turns[engine] = now
                self._count(entry, -1)
                return entry
        return None

    def most_urgent(self, may_run: MayRun) -> int | None:
        """The class of the request that `pop` would return."""
        for priority, each in self._classes.items():
            if any(may_run(lane) for _, lane in each.buckets):
                return priority
        return None

    def charge(self, client: str, priority: int, seconds: float) -> None:
        """Charge engine time to a client, beyond the cost that was charged when a request was taken out."""
        self._class(priority).charge(client, seconds)

    def expire(self, now: float) -> list[_Entry]:
        """Take out the requests whose deadline has passed."""
        return self._taken(each.expire(now) for each in self._classes.values())

    def remove(self, unwanted: Callable[[_Entry], bool]) -> list[_Entry]:
        """Take out the requests that are `unwanted`, in the order of their arrival."""
        taken = self._taken(each.remove(unwanted) for each in self._classes.values())
        return sorted(taken, key=lambda entry: entry.sequence)

    def _class(self, priority: int) -> _PriorityClass[_Entry]:
        if priority not in self._classes:
            self._classes[priority] = _PriorityClass()
            self._classes = dict(sorted(self._classes.items()))
        return self._classes[priority]

    def _taken(self, parts: Iterator[list[_Entry]]) -> list[_Entry]:
        entries = [entry for part in parts for entry in part]
        for entry in entries:
            self._count(entry, -1)
        return entries

    def _count(self, entry: _Entry, change: int) -> None:
        client = entry.client
        self._length += change
        waiting = self._waiting[client] = self._waiting.get(client, 0) + change
        self._costs[client] = self._costs.get(client, 0.0) + change * entry.cost
        if not waiting:
            del self._waiting[client], self._costs[client]


_Head: TypeAlias = tuple[tuple[str, Hashable], tuple[float, int, _Entry]]
"""The client and lane of a bucket, and its first item."""


class _PriorityClass(Generic[_Entry]):
    """The requests of one class, and the engine time that each client has had in it."""

    def __init__(self) -> None:
        self.buckets: dict[tuple[str, Hashable], list[tuple[float, int, _Entry]]] = {}
        """Heaps by client and lane."""
        self.turns: dict[Hashable, float] = {}
        """Time of its last turn on each engine, or when it first had requests again."""
        self._served: dict[str, float] = {}
        self._most_served = 0.0
        """The most engine time, s, that any client had had when it was served."""

    def is_neglected(self, now: float, engine: Hashable) -> bool:
        """Whether requests have waited too long for a turn of this class on an engine."""
        return bool(self.buckets) and now - self.turns.setdefault(engine, now) > LONGEST_NEGLECT

    def push(self, entry: _Entry) -> None:
        client = entry.client
        if not self.buckets:
            self.turns.clear()
        if all(waiting != client for waiting, _ in self.buckets):
            self._open_account(client)
        bucket = self.buckets.setdefault((client, entry.lane), [])
        heappush(bucket, (entry.due, entry.sequence, entry))

    def pop(self, may_run: MayRun, staying: Staying | None, seconds: float) -> _Entry | None:
        heads = [(key, bucket[0]) for key, bucket in self.buckets.items() if may_run(key[1])]
        if not heads:
            return None
        served = self._served
        client, lane = heads[0][0] if len(heads) == 1 else self._chosen(heads, staying, seconds)
        bucket = self.buckets[client, lane]
        entry = heappop(bucket)[2]
        if not bucket:
            del self.buckets[client, lane]
        self._most_served = max(self._most_served, served[client])
        served[client] += entry.cost
        return entry

    def _chosen(
        self, heads: Sequence[_Head[_Entry]], staying: Staying | None, seconds: float
    ) -> tuple[str, Hashable]:
        """The bucket of the next request, among the first requests of all buckets."""
        served = self._served

        def order(head: _Head[_Entry]) -> tuple[float, float, int]:
            return head[1][0], served[head[0][0]], head[1][1]

        limit = min(served[client] for (client, _), _ in heads) + LEAD
        key, (_, _, entry) = min((head for head in heads if served[head[0][0]] < limit), key=order)
        if staying is None or staying.is_resident(key[1]):
            return key
        entry.passed_over = min(entry.passed_over, staying.now)
        if staying.now >= min(entry.passed_over + seconds, entry.due - seconds):
            return key
        limit += seconds
        resident = [each for each in heads if served[each[0][0]] < limit and staying.is_resident(each[0][1])]
        return min(resident, key=order)[0] if resident else key

    def charge(self, client: str, seconds: float) -> None:
        if client not in self._served:
            self._open_account(client)
        self._served[client] += seconds

    def expire(self, now: float) -> list[_Entry]:
        # Further steps of a request are due but do not expire; requests behind them may.
        due = [key for key, bucket in self.buckets.items() if bucket[0][0] < now]
        return self._remove_from(due, lambda entry: entry.deadline < now)

    def remove(self, unwanted: Callable[[_Entry], bool]) -> list[_Entry]:
        return self._remove_from(list(self.buckets), unwanted)

    def _remove_from(
        self, keys: Sequence[tuple[str, Hashable]], unwanted: Callable[[_Entry], bool]
    ) -> list[_Entry]:
        removed = []
        for key in keys:
            kept = []
            for item in sorted(self.buckets[key], key=lambda item: item[:2]):
                if unwanted(item[2]):
                    removed.append(item[2])
                else:
                    kept.append(item)
            self.buckets[key] = kept  # sorted, therefore a heap
            if not kept:
                del self.buckets[key]
        return removed

    def _open_account(self, client: str) -> None:
        if client not in self._served:
            self._forget()
        self._served[client] = max(self._served.get(client, -inf), self._most_served - LEAD)

    def _forget(self) -> None:
        """If there are too many accounts, drop the lowest ones of clients without requests."""
        if len(self._served) > _ACCOUNTS_KEPT:
            waiting = {client for client, _ in self.buckets}
            most = sorted(self._served, key=lambda client: -self._served[client])[: _ACCOUNTS_KEPT // 2]
            self._served = {client: self._served[client] for client in waiting.union(most)}
