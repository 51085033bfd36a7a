"""The connection of a host to the device of its backend: opened, lost and opened again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgetpu_driver.backends.backend import Backend, Readings, RegisterValue
from edgetpu_driver.errors import DeviceError, DeviceLostError, DeviceNotFoundError, EdgeTpuError
from edgetpu_driver.host.host_status import UNCONFIGURED, State

if TYPE_CHECKING:
    from edgetpu_driver.usb.connector import Phase


class DeviceConnection:
    """The state of a backend's device. All methods may be called from any thread.

    attach, detach: called with `lock` held when the device has been opened and when it is given up; `attach`
    may raise DeviceError. on_change: called whenever state or status message changed, by the thread that
    changed them.
    """

    def __init__(
        self,
        backend: Backend,
        attach: Callable[[], None],
        detach: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self.lock = threading.RLock()
        """Guards the state and whatever `attach` and `detach` change; never held while waiting for the
        device, except by `attach`."""
        self.state = UNCONFIGURED.state
        self.status_message = UNCONFIGURED.status_message
        """One line on the state."""
        self.readings = Readings()
        """What was read from the device last."""
        self.opening = 0
        """Number of this opening of the device; an error that stems from an earlier one is ignored."""
        self.reopened = 0
        """How often a lost device was opened again."""
        self._backend = backend
        self._attach = attach
        self._detach = detach
        self._on_change = on_change
        self._device_lock = threading.Lock()
        self._recovering = False

    @property
    def ready(self) -> bool:
        """Whether the device is open."""
        return self.state is State.READY

    def open(self) -> None:
        """Open the device anew; the outcome is the new state. Takes seconds."""
        with self._device_lock:
            if self.state is State.CLOSED:
                self._set_state(State.STARTING, "looking for the device")
            try:
                self._backend.close()
                self._backend.open(self._on_phase)
                self.readings = self._backend.read()
            except (DeviceNotFoundError, DeviceLostError) as error:
                return self._set_state(State.ABSENT, str(error))
            except EdgeTpuError as error:
                return self._set_state(State.FAILED, str(error))
            except Exception as error:
                # Anything a USB library may raise: the caller tries again, and the state says why.
                return self._set_state(State.FAILED, f"{type(error).__name__}: {error}")
            with self.lock:
                try:
                    self._attach()
                except DeviceError as error:
                    return self.give_up(State.RECOVERING, str(error))
                self.reopened += self._recovering
                self._recovering = False
                self.opening += 1
                return self._set_state(State.READY, "")

    def lose(self, error: DeviceError, opening: int) -> None:
        """Give the device up because of an error, unless that stems from an earlier opening."""
        with self.lock:
            if not self.ready or opening != self.opening:
                return
            self._recovering = True
            self.give_up(State.ABSENT if isinstance(error, DeviceLostError) else State.RECOVERING, str(error))

    def give_up(self, state: State, status_message: str) -> None:
        """Give the device up, so that the next `open` brings it up from scratch."""
        with self.lock:
            self._detach()
            self._set_state(state, status_message)

    def close(self) -> None:
        """Close the device."""
        with self._device_lock:
            self.give_up(UNCONFIGURED.state, UNCONFIGURED.status_message)
            self._backend.close()

    def refresh(self) -> None:
        """Read state and counters; this also notices a lost device.

        Waits for a request under way, and for as long as a hanging transfer takes.
        """
        with self.lock:
            opening, ready = self.opening, self.ready
        if ready:
            try:
                self.readings = self._backend.read()
            except DeviceError as error:
                self.lose(error, opening)

    def registers(self) -> tuple[RegisterValue, ...]:
        """Read the device's error and status registers; none while there is no device."""
        return self._backend.registers() if self.ready else ()

    def _on_phase(self, phase: Phase, bus_path: str) -> None:
        """Show the phase as the state, except that a device that fails at every attempt remains FAILED."""
        with self.lock:
            state = State[phase.name]
            if self.state is State.FAILED or (self.state is State.RECOVERING and state is State.STARTING):
                return
            self._set_state(state, f"the stick at {bus_path}: {phase.value}")

    def _set_state(self, state: State, status_message: str) -> None:
        changed = (state, status_message) != (self.state, self.status_message)
        self.state, self.status_message = state, status_message
        if changed:
            self._on_change()
