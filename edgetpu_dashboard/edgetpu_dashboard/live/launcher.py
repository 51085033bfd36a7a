"""Starts and stops processes of nodes."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.node_kit.installed_nodes.installed_executables import installed_executable
from edgetpu_driver.node_kit.process.process_end import starter_environment

STOP_SECONDS = 5.0
"""Seconds after which an interrupted node is killed, as with `ros2 launch`."""


class LaunchError(EdgeTpuError):
    """A node cannot be started or stopped; the message says why."""


class Launcher:
    """The processes of nodes that were started here. Safe to use from any thread.

    They end with this process, even if it is killed, and with the thread that has started them.
    """

    def __init__(self, ros_arguments: Sequence[str] = ()) -> None:
        """ros_arguments: arguments of every process, as after --ros-args."""
        self._ros_arguments = list(ros_arguments)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def started(self, name: str) -> bool:
        """Whether this launcher started a process of that name that still runs."""
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def start(
        self,
        name: str,
        package: str,
        executable: str,
        parameters: Mapping[str, str] | None = None,
        ros_arguments: Sequence[str] = (),
    ) -> None:
        """Start a node. Raises LaunchError.

        parameters: values by name, in YAML. ros_arguments: in addition to those of every process.
        """
        path = installed_executable(package, executable)
        if path is None:
            raise LaunchError(
                f"{package}/{executable} is not installed: build the workspace and source its install tree"
            )
        # With the node's name: otherwise the section of the node in a parameter file would win.
        pairs = [f"{name}:{key}:={value}" for key, value in (parameters or {}).items()]
        arguments = [*self._ros_arguments, *ros_arguments, *(part for pair in pairs for part in ("-p", pair))]
        command = [str(path), "--ros-args", *arguments]
        with self._lock:
            if self.started(name):
                raise LaunchError(f"{name} is already running")
            try:
                # In a new session: Ctrl-C on a terminal reaches only this process, which stops the node.
                self._processes[name] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    env=starter_environment(),
                )
            except OSError as error:
                raise LaunchError(f"{name}: {error.strerror}") from None
            except ValueError as error:  # a zero byte in a parameter
                raise LaunchError(f"{name}: {error}") from None

    def check(self, name: str) -> None:
        """Raise LaunchError if a node that was started here has ended by itself with an error."""
        process = self._processes.get(name)
        if process is not None and process.poll():
            raise LaunchError(
                f"{name} has ended with status {process.returncode}: the log of the dashboard says why"
            )

    def stop(self, name: str) -> None:
        """Stop a node that was started here; it is killed after STOP_SECONDS. Raises LaunchError."""
        with self._lock:
            if not self.started(name):
                raise LaunchError(f"{name} was not started from here: stop it where it was started")
            process = self._processes[name]
        self._stop([process])
        with self._lock:
            if self._processes.get(name) is process:  # another thread may have started the node again
                del self._processes[name]

    def stop_all(self, seconds: float = STOP_SECONDS) -> None:
        """Stop all nodes that were started here."""
        with self._lock:
            running = [process for process in self._processes.values() if process.poll() is None]
        self._stop(running, seconds)

    @staticmethod
    def _stop(processes: Sequence[subprocess.Popen[bytes]], seconds: float = STOP_SECONDS) -> None:
        for process in processes:
            process.send_signal(signal.SIGINT)
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(process.poll() is None for process in processes):
            time.sleep(0.02)
        for process in processes:
            process.kill()  # does nothing to one that has ended
            process.wait()
