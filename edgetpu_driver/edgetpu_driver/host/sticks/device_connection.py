"""The device of one stick: opened, read, lost and reopened by the thread that owns it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import Backend, Readings, RegisterValue
from edgetpu_driver.errors import DeviceError, DeviceLostError, DeviceNotFoundError, EdgeTpuError
from edgetpu_driver.host.host_status import UNCONFIGURED, State

if TYPE_CHECKING:
    from edgetpu_driver.usb.connector import Phase

_log = logging.getLogger(__name__)


class DeviceConnection:
    """The state of a backend's device. Its methods are called by the thread that owns the device.

    on_change: called whenever state or status message changed.
    """

    def __init__(self, backend: Backend, on_change: Callable[[], None]) -> None:
        self.state = UNCONFIGURED.state
        self.status_message = UNCONFIGURED.status_message
        """One line that explains the state."""
        self.readings = Readings()
        """The last readings of the device."""
        self.reopened = 0
        """Number of times a lost device was reopened."""
        self.is_open = False
        self._backend = backend
        self._on_change = on_change
        self._recovering = False
        self._logged = ""

    def open(self) -> None:
        """Open the device; `is_open` and the state show the outcome. Takes seconds."""
        if self.state is State.CLOSED:
            self._set_state(State.STARTING, "looking for the device")
        try:
            self._backend.close()
            self._backend.open(self._on_phase)
            self.readings = self._backend.read()
        except (DeviceNotFoundError, DeviceLostError) as error:
            self._set_state(State.ABSENT, str(error))
        except EdgeTpuError as error:
            self._set_state(State.FAILED, str(error))
        except Exception as error:
            # USB libraries may raise any exception: the caller tries again, and the state says why.
            self._set_state(State.FAILED, f"{type(error).__name__}: {error}")
        else:
            self.is_open = True

    def confirm(self) -> None:
        """Set the state to READY."""
        if self.state is not State.READY:
            self.reopened += self._recovering
            self._recovering = False
            self._set_state(State.READY, "")

    def set_message(self, status_message: str) -> None:
        """Set a status message about a device that works."""
        if self.state is State.READY:
            self._set_state(State.READY, status_message)

    def lose(self, error: EdgeTpuError) -> None:
        """Close the device because of an error."""
        self._recovering = True
        self.give_up(State.ABSENT if isinstance(error, DeviceLostError) else State.RECOVERING, str(error))

    def give_up(self, state: State, status_message: str) -> None:
        """Close the device, so that the next `open` brings it up from scratch."""
        self.is_open = False
        self._set_state(state, status_message)

    def close(self) -> None:
        """Close the device."""
        self.give_up(UNCONFIGURED.state, UNCONFIGURED.status_message)
        try:
            self._backend.close()
        except Exception:
            _log.exception("unexpected error while closing the device")

    def read(self) -> None:
        """Read state and counters. Raises DeviceError; any other error is logged once."""
        try:
            self.readings = self._backend.read()
            self.confirm()
        except DeviceError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if text != self._logged:
                self._logged = text
                _log.error("cannot read the device's state: %s", text)

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the device's error and status registers; empty without a device. Raises DeviceError."""
        return self._backend.registers() if self.is_open else ()

    def _on_phase(self, phase: Phase, bus_path: str) -> None:
        """Show the phase as the state; a device that fails at every attempt remains FAILED."""
        state = State[phase.name]
        if self.state is State.FAILED or (self.state is State.RECOVERING and state is State.STARTING):
            return
        self._set_state(state, f"the stick at {bus_path}: {phase.value}")

    def _set_state(self, state: State, status_message: str) -> None:
        changed = (state, status_message) != (self.state, self.status_message)
        self.state, self.status_message = state, status_message
        if not changed:
            return
        try:
            self._on_change()
        except Exception:
            _log.exception("unexpected error in the callback for a change of the device")
