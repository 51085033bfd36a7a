"""Starts processes as forks of a process that has imported their modules, which saves start-up time.

Importing ROS, NumPy, OpenCV and a node takes most of a second of processor time. `python -m
testdata.running_nodes.node_forker` imports them once and forks for each request; a fork then runs the same
entry point as the console script, with the arguments, environment and working directory of the request, and
ends as a Python process does. Other programs are started in the same way, as `python -m` would run them.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import inspect
import json
import os
import re
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import IO

from edgetpu_driver.node_kit.process.stop_signals import stop_signals
from testdata.timeouts import PATIENCE

_LARGEST_REQUEST = 1 << 17
"""Size of the buffer for a request, bytes: more than the arguments and environment of a node need."""

_PRINT_STACKS = signal.SIGUSR2
"""Signal that makes a process print its stacks; no node handles it otherwise."""

_ALSO = (
    "ai_edge_litert.interpreter",
    "edgetpu_driver.node_kit.process.spin",
    "edgetpu_perception.nodes.single_process_entry",
)
"""Modules that nodes import later, which are imported before forking, too."""

_PERIOD = 0.2
"""Time between two diagnostics, and between two attempts to load a model, s: a fifth of the usual time, for
tests that wait for the next one."""

_STOP_SECONDS = 4.5
"""Maximum duration of a stop, s, longer than usual for a busy machine. `NodeProcess.stop` allows 5 s."""


class NodeForker:
    """The interface of the forking process. Not thread-safe.

    modules: modules that it imports, for programs other than nodes; by default those of the nodes.
    """

    def __init__(self, *modules: str) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=Path(__file__).parents[2],
            )

    def start(self, arguments: list[str], output: IO[str], errors: IO[str] | None = None) -> ForkedProcess:
        """Run the console script at the path arguments[0], or the module arguments[1] after "-m".

        `output` receives its standard output and, unless `errors` is given, its standard error.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
        with theirs:
            files = [output.fileno(), (errors or output).fileno(), theirs.fileno()]
            socket.send_fds(self._connection, [request], files)
        return ForkedProcess(ours)

    def close(self) -> None:
        """End the forking process and the processes that still run, as the end of this process does."""
        self._connection.close()
        self._process.wait()


def content(file: IO[str]) -> str:
    """What a process has written to a file. It shares the file's offset, which a seek would move."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


class ForkedProcess:
    """A forked process, with methods like those of subprocess.Popen."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._status: int | None = None
        self.pid = int(connection.recv(64))

    def poll(self) -> int | None:
        """The exit status; None while the process runs."""
        with suppress(TimeoutError, BlockingIOError):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float) -> int:
        """Wait for the process to end; return its exit status. Raises TimeoutError after `timeout` s."""
        if self._status is None:
            self._connection.settimeout(timeout)
            self._status = int(self._connection.recv(64))
            self._connection.close()
        return self._status

    def print_stacks(self) -> None:
        """Let the process print the stacks of its threads."""
        self.send_signal(_PRINT_STACKS)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)


def _import_nodes() -> None:
    from edgetpu_driver.node_kit.process_entry import LIBRARY_LIMITS

    for name, value in LIBRARY_LIMITS.items():  # read by the libraries that the nodes import
        os.environ.setdefault(name, value)
    from edgetpu_driver.files import detached_reading
    from edgetpu_driver.node_kit import diagnostics
    from edgetpu_driver.node_kit.clients import matrix_client, model_client
    from edgetpu_driver.node_kit.node_table import all_nodes
    from edgetpu_driver.node_kit.process import spin

    diagnostics.DIAGNOSTICS_PERIOD = _PERIOD
    spin.STOP_DEADLINE = _STOP_SECONDS
    detached_reading.LONGEST = PATIENCE  # a busy machine may hold up the thread that reads
    model_client.RETRY_PERIOD = matrix_client.RETRY_PERIOD = _PERIOD
    for entry in all_nodes().values():
        entry.load()
    for name in _ALSO:
        importlib.import_module(name)
    _load_type_supports()
    # The first log message of a process would take this time: rclpy looks for the module that logs, for which
    # `inspect` resolves the path of every module.
    inspect.getmodule(inspect.currentframe())
    for name in [name for name in sys.modules if name.startswith("edgetpu_driver.nodes.")]:
        del sys.modules[name]  # the fork imports it: a default depends on its environment


def _load_type_supports() -> None:
    """Load the libraries of all imported message packages, as the first use of a message would."""
    for name, module in list(sys.modules.items()):
        if not name.endswith((".msg", ".srv")):
            continue
        for interface in vars(module).values():
            load = getattr(type(interface), "__import_type_support__", None)
            if load is not None:
                load()


def _serve(requests: socket.socket) -> list[str]:
    """Fork for each request. Returns the arguments in a fork, and [] after the last request.

    Forks that still run then are killed: who started them may have crashed.
    """
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not requests:
                _report_end(selector, key)
                continue
            request, descriptors, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 3)
            if not request:
                _kill_forks(selector)
                return []
            outputs, connection = descriptors[:2], socket.socket(fileno=descriptors[2])
            signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals())  # until the fork handles them
            pid = _fork()
            if pid == 0:
                return _become_program(request, outputs, [requests, connection, selector])
            signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals())
            for each in outputs:
                os.close(each)
            connection.send(str(pid).encode())
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))


def _report_end(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Send the exit status of a fork that has ended to whoever started it."""
    pid, connection = key.data
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):  # nobody waits for it any more
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    selector.unregister(key.fileobj)
    os.close(int(key.fd))
    connection.close()


def _kill_forks(selector: selectors.BaseSelector) -> None:
    for key in selector.get_map().values():
        if key.data is not None:  # a fork's; requests have none
            signal.pidfd_send_signal(int(key.fd), signal.SIGKILL)


def _fork() -> int:
    """os.fork() for processes with LTTng, through which ROS traces.

    Its library starts threads when it is loaded. Unless it is told of the fork, it cancels them at the end of
    the forked process, which does not have these threads, and crashes.
    """
    lines = Path("/proc/self/maps").read_text().splitlines()
    path = next((line.split()[-1] for line in lines if re.search(r"/liblttng-ust(-\w+)?\.so", line)), None)
    if path is None:
        return os.fork()
    library = ctypes.CDLL(path)
    prefix = "lttng_ust" if hasattr(library, "lttng_ust_before_fork") else "ust"  # since and before 2.13
    signals = ctypes.create_string_buffer(128)  # a sigset_t
    library[f"{prefix}_before_fork"](signals)
    pid = os.fork()
    library[f"{prefix}_after_fork_{'parent' if pid else 'child'}"](signals)
    return pid


def _become_program(
    request: bytes, outputs: list[int], opened: list[socket.socket | selectors.BaseSelector]
) -> list[str]:
    """Give a fork the files, environment and folder of a request; returns the program's arguments."""
    for each in opened:
        each.close()
    arguments, environment, folder = json.loads(request)
    for number in stop_signals():
        signal.signal(number, signal.SIG_DFL if _is_module(arguments) else _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals())
    for standard, output in enumerate(outputs, 1):
        os.dup2(output, standard)
        os.close(output)
    faulthandler.register(_PRINT_STACKS)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    return list(arguments)


def _is_module(arguments: list[str]) -> bool:
    return arguments[0] == "-m"


def _run_module(arguments: list[str]) -> None:
    """Run a module as `python -m` does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[:] = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)  # like a node that is still being imported


def main(descriptor: int, modules: list[str]) -> int:
    """Import the modules, or the nodes, and serve requests; in a fork, return the program's exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal: this process must outlive its forks
    for name in modules:
        importlib.import_module(name)
    if not modules:
        _import_nodes()
    scripts = {script.name: script for script in entry_points(group="console_scripts")}
    gc.freeze()
    arguments = _serve(socket.socket(fileno=descriptor))
    if not arguments:
        return 0
    if _is_module(arguments):
        _run_module(arguments)
        return 0
    sys.argv[:] = arguments
    status: int = scripts[Path(arguments[0]).name].load()()
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
