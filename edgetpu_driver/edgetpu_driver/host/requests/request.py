"""A request on its way through a host."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from inspect import GEN_CREATED, getgeneratorstate
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from edgetpu_driver.engines.divisible_work import Pieces
from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.requests.request_terms import RequestTerms

if TYPE_CHECKING:
    from edgetpu_driver.host.models.model_replica import ModelReplica

_log = logging.getLogger(__name__)


class Kind(Enum):
    """The kind of work of a request."""

    INVOKE = "invoke"
    MULTIPLY = "multiply"
    SWAP = "set_weights"
    UPDATE = "update"
    """Set the weights on one stick that were set on others; requested by the host itself."""


class Lane(NamedTuple):
    """Key of requests of which, at any given time, either all or none can be run."""

    model: HostedModel
    kind: Kind
    stick: int | None
    """Number of the only stick that may run them; None: any."""
    begun: bool
    client: str
    priority: int


@dataclass(eq=False)
class Work:
    """The work of a request that has begun."""

    replica: ModelReplica
    """The replica on which it was begun."""
    pieces: Pieces[Any]
    value: Any = None
    """Result or exception of the calculation that the work waits for."""


@dataclass(eq=False)
class Request:
    """A request, from its arrival to its answer. It is changed by the scheduler, with its lock held."""

    model: HostedModel
    kind: Kind
    begin: Callable[[ModelReplica], Pieces[Any]]
    """Starts the work on a replica."""
    done: Callable[[Any], None]
    client: str
    priority: int
    arrived: float
    deadline: float = inf
    due: float = inf
    """Time that determines its order; by default the deadline."""
    of_whole: bool = False
    """Whether it is a step of a whole model, which has no latency of its own."""
    follows: bool = False
    """Whether it is a further step of a request that has been admitted, or is run again."""
    inputs: Mapping[str, NDArray[Any]] | None = None
    """Inputs of an inference, kept in case the loaded model turns out to have several steps."""
    part: int = 0
    """Number of the requested part, in that case; 0: the whole model."""
    reset: bool = False
    """Whether an inference starts from a state of zeros."""
    sequence: int = 0
    """Its position among the requests of its client: by arrival or, for long work, by its last turn."""
    first_sequence: int = 0
    """Its `sequence` when it arrived."""
    passed_over: float = inf
    """When requests whose parameters are in memory were first run before it, s; infinite: never."""
    inferences: int = 1
    """Approximate number of inferences that it takes."""
    stick: int | None = None
    """Number of the stick that has begun it, or that alone may run it."""
    work: Work | None = None
    """None until it has begun."""
    served: float = 0.0
    """Engine time used so far, s."""
    turn: float = 0.0
    """Engine time used since it was placed behind the other requests of its client, s."""
    failures: int = 0
    """Number of sticks that failed while running it, other than by being unplugged."""
    cost: float = field(init=False)
    """Expected remaining engine time, s."""

    def __post_init__(self) -> None:
        self.cost = self.inferences * self.model.expected.engine
        self.due = min(self.due, self.deadline)

    @classmethod
    def of(
        cls,
        terms: RequestTerms,
        model: HostedModel,
        kind: Kind,
        begin: Callable[[ModelReplica], Pieces[Any]],
        done: Callable[[Any], None],
        inferences: int = 1,
    ) -> Request:
        """A request that arrives now."""
        now = time.monotonic()
        deadline = now + terms.deadline if terms.deadline > 0 else inf
        return cls(
            model, kind, begin, done, terms.client, int(terms.priority), now, deadline, inferences=inferences
        )

    @property
    def lane(self) -> Lane:
        """See Lane."""
        return Lane(self.model, self.kind, self.stick, self.work is not None, self.client, self.priority)

    @property
    def has_run(self) -> bool:
        """Whether its work has been run, if only in part, where it was begun."""
        return self.work is not None and getgeneratorstate(self.work.pieces) != GEN_CREATED

    def restart(self) -> None:
        """Discard the work done so far; the request is run again, before later ones of its client."""
        work, self.work = self.work, None
        if work is not None:
            work.pieces.close()
        self.follows, self.sequence, self.turn = True, self.first_sequence, 0.0
        if self.kind is not Kind.UPDATE:
            self.stick = None

    def answer(self, answer: Any) -> None:
        """Deliver the result or the error; called once, without any lock held."""
        try:
            self.done(answer)
        except Exception:
            _log.exception("unexpected error in the callback of a request for model '%s'", self.model.name)
