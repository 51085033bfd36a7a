"""The host's processor as the device of a backend: always present, without state or settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import ParsedModel, Readings, RegisterValue
from edgetpu_driver.engines.litert_process_limits import ProcessLimits

if TYPE_CHECKING:
    from edgetpu_driver.usb.connector import OnPhase


class HostProcessor:
    """The common base of backends that run everything on the host's processor; see Backend."""

    name = "cpu"
    compiled = False
    uncompiled = True

    def __init__(self, limits: ProcessLimits | None = None) -> None:
        """limits: of the processes that run graphs which are not in the suite's catalogue."""
        self._limits = limits

    def adopt(self, model: ParsedModel) -> None:
        """Do nothing."""

    @property
    def simulated_time(self) -> None:
        """None: nothing is simulated."""

    def open(self, on_phase: OnPhase | None = None) -> None:  # noqa: ARG002
        """Load LiteRT now rather than with the first model; DependencyMissingError without it."""
        from edgetpu_driver.engines.litert_interpreter import interpreter_class

        interpreter_class()

    def close(self) -> None:
        """Do nothing."""

    def set_clock(self, preset: str) -> None:
        """Do nothing."""

    def read(self) -> Readings:
        """Return default readings: there is no device to read."""
        return Readings()

    def registers(self) -> tuple[RegisterValue, ...]:
        """Always empty."""
        return ()
