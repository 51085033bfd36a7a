"""How long a request may wait for its turn: until its deadline, or for ClientLimits.wait without one."""

from __future__ import annotations

from math import inf

from edgetpu_driver.errors import ExpiredError
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.requests.request import Kind, Request


def is_overdue(request: Request, limits: ClientLimits, now: float) -> bool:
    """Whether a request without a deadline has waited too long; it is then answered BUSY.

    A request that has begun, or that sets weights which are in effect already, is never overdue. The queue
    itself takes out the requests whose deadline has passed.
    """
    if request.follows or request.work or request.kind is Kind.UPDATE or request.deadline != inf:
        return False
    return request.arrived <= now - limits.wait


def expiry(request: Request) -> ExpiredError:
    """The error for a request whose deadline has passed."""
    return expired_after(request.deadline - request.arrived)


def expired_after(seconds: float) -> ExpiredError:
    """The error for a request whose deadline, this long after its arrival, has passed."""
    return ExpiredError(
        f"the deadline, {seconds:g} s after its arrival, passed before the request could be run"
    )
