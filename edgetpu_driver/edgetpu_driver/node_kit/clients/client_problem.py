"""The reason why a model client has no results, for others to read; logged whenever it changes."""

from __future__ import annotations

import time
from math import inf

from rclpy.node import Node

START_UP = 5.0
"""Seconds during which a driver without its device is normal: nodes of one launch start together."""


class ClientProblem:
    """The present problem of a client. When it is resolved, the log says that the model is loaded."""

    def __init__(self, node: Node, title: str, name: str) -> None:
        """title: of the model, in messages. name: the model's own name on the driver; empty: none."""
        self._log, self._title = node.get_logger(), title
        self._own_name = f" as '{name}'" if name else ""
        self.text = "looking for the driver"
        """One line; empty if results can be expected."""
        self.needs_user = False
        """Whether it remains until a user changes something: a file, a parameter."""
        self.persists = False
        """Whether it stays until a request succeeds, even if the model is loaded."""
        self._unlogged = False
        """Whether the log has yet to say that the model is loaded; it will when the pending request ends."""
        self._warning_due = False
        """Whether `text` was logged without a warning, because it is usual during start-up."""
        self._start_up_end = inf

    def spinning(self) -> None:
        """Note that the node's callbacks run: start-up begins once the other nodes have been made."""
        if self._start_up_end == inf:
            self._start_up_end = time.monotonic() + START_UP

    def model_lost(self, text: str, *, usual_at_start: bool = False, needs_user: bool = False) -> None:
        """Note that the model is not loaded, or not any more. usual_at_start: no warning during start-up."""
        self._unlogged = False
        self._report(text, usual_at_start=usual_at_start, needs_user=needs_user)

    def loading_takes_long(self, text: str) -> None:
        """Note that the driver is still loading the model, which is no reason for a warning."""
        if text != self.text:
            self._log.info(f"model '{self._title}': {text}")
        self.text, self.needs_user, self._warning_due, self._unlogged = text, False, False, False

    def model_loaded(self, reservation: str) -> None:
        """Note that the model is loaded. reservation: why it nevertheless cannot run; empty if it can."""
        if reservation:
            self.persists = True
            self._report(reservation, needs_user=True)
        elif not self.persists:
            self.text, self.needs_user, self._warning_due, self._unlogged = "", False, False, True

    def request_succeeded(self) -> None:
        """Note that a result has come, so there is no problem."""
        if self.persists:
            self.persists = False
            self._report("")

    def client_closed(self) -> None:
        """Note that the client is closed, which is not logged."""
        self.text, self._warning_due = "the client is closed", False

    def log_loaded(self, driver: str) -> None:
        """Log that the model is loaded, unless the log says so already."""
        if self._unlogged:
            self._unlogged = False
            self._log.info(f"model '{self._title}' is loaded on {driver}{self._own_name}")

    def _report(self, text: str, *, usual_at_start: bool = False, needs_user: bool = False) -> None:
        """Log the problem if it changes; a warning unless it is usual at this time."""
        self.needs_user = needs_user
        usual = usual_at_start and time.monotonic() < self._start_up_end
        if text == self.text and (usual or not self._warning_due):
            return
        self.text, self._warning_due = text, usual
        if usual:
            self._log.info(f"model '{self._title}': {text}")
        elif text:
            self._log.warning(f"model '{self._title}': {text}")
        else:
            self._unlogged = True
