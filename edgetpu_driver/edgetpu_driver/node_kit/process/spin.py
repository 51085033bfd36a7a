"""Start, run and stop the nodes of a process; errors are reported in one line, without a traceback."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType

import rclpy
from rclpy.exceptions import NameValidationException, ParameterException
from rclpy.executors import Executor
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_rmw_implementation_identifier

from edgetpu_driver.errors import EdgeTpuError
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.executor.callback_guard import culprits
from edgetpu_driver.node_kit.executor.executor import make_executor
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.middleware.damaged_requests import refuse_damaged_requests
from edgetpu_driver.node_kit.middleware.fast_dds_memory.free_space import shortage_of_shared_memory
from edgetpu_driver.node_kit.middleware.fast_dds_memory.killed_processes import (
    clean_up_after_killed_processes,
)
from edgetpu_driver.node_kit.middleware.fast_dds_memory.lost_ports import LOOK_PERIOD, PortWatch
from edgetpu_driver.node_kit.printable_text import one_line
from edgetpu_driver.node_kit.process import stop_request
from edgetpu_driver.node_kit.process.periodic import Periodic
from edgetpu_driver.node_kit.process.process_end import (
    EXIT_FAILURE,
    end_within,
    exit_in_time,
    reporting_failed_starts,
    say,
)
from edgetpu_driver.node_kit.process.python_log import RosLogHandler, python_log_to_ros
from edgetpu_driver.node_kit.process.respawn_limit import EXIT_USAGE
from edgetpu_driver.node_kit.process.stop_request import StopRequestedError
from edgetpu_driver.node_kit.process.stop_signals import stop_signals
from edgetpu_driver.node_kit.process.unused_memory import RELEASE_PERIOD, release_unused_memory

_EXPECTED = (FatalError, EdgeTpuError, ParameterException, NameValidationException)

STOP_DEADLINE = 2.5
"""Maximum duration of a stop, s. A hung USB transfer takes 6 s, too long to wait for after Ctrl-C."""


def run(make_nodes: Callable[[], Sequence[Node]]) -> int:
    """Start ROS, spin the nodes in one single-threaded executor until a stop signal, and clean up.

    For the signals see `stop_signals`. Returns the exit status: 0 after a signal, 1 if a node could not be
    made or a callback raised, 2 if the ROS arguments, the parameter file, the directory of the log or
    EDGETPU_EXECUTOR are invalid. Nodes are destroyed in reverse order. A stop that takes longer than
    STOP_DEADLINE ends the process with status 1. An unexpected exception is logged as one line at level
    fatal, its traceback at level debug. Records of Python's `logging` go to the log of the first node.
    """
    with python_log_to_ros(get_logger(os.path.basename(sys.argv[0]))) as log:
        return _run(make_nodes, log)


def _run(make_nodes: Callable[[], Sequence[Node]], log: RosLogHandler) -> int:
    stop = _StopSignal()
    clean_up_after_killed_processes()
    if shortage := shortage_of_shared_memory(get_rmw_implementation_identifier(), os.environ):
        log.logger.warning(shortage)
    if wrong := _init_ros():
        return _print_error(wrong, EXIT_USAGE)
    try:
        executor = make_executor()
    except FatalError as error:
        rclpy.try_shutdown()
        return _print_error(error, EXIT_USAGE)
    nodes: list[Node] = []
    reported: list[Exception] = []
    status = 0
    try:
        stop.wakes(executor)
        _start(make_nodes, nodes, reported)
        if nodes:
            log.logger = nodes[0].get_logger()  # the driver's, if it is one of several
        for node in nodes:
            executor.add_node(node)
        _spin(executor, stop)
    except StopRequestedError:
        pass  # a node was being made
    except Exception as error:
        status = EXIT_FAILURE if error in reported else _report(error, nodes)
    finally:
        end_within(STOP_DEADLINE)
        stop.releases()
        # In this order: an executor that outlives its nodes, or a node its context, prints tracebacks.
        executor.shutdown()
        for node in nodes:  # before the first is destroyed, which takes time
            if isinstance(node, BaseNode):
                status = _call(node, node.on_stop) or status
        for node in reversed(nodes):
            status = _call(node, node.destroy_node) or status
        rclpy.try_shutdown()
        stop.ignore()
        exit_in_time()
    return status


def _start(make_nodes: Callable[[], Sequence[Node]], nodes: list[Node], reported: list[Exception]) -> None:
    """Add the nodes that are made to `nodes`, and failures that were reported to `reported`."""

    def report(error: Exception) -> None:
        if isinstance(error, StopRequestedError):
            return
        reported.append(error)
        end_within(STOP_DEADLINE)
        _report(error, nodes)

    with reporting_failed_starts(report):
        nodes.extend(make_nodes())
    refuse_damaged_requests(nodes)


def _spin(executor: Executor, stop: _StopSignal) -> None:
    """Run callbacks until a stop signal, and between them the periodic actions of a process."""
    settle_memory()
    repeated = Periodic(RELEASE_PERIOD, release_unused_memory), Periodic(LOOK_PERIOD, PortWatch().look)
    while not stop.requested:
        executor.spin_once()
        for each in repeated:
            each.run_when_due()


def _init_ros() -> str:
    """Initialise ROS without its signal handlers; returns why the arguments are wrong, else an empty text."""
    try:
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    except _rclpy.UnknownROSArgsError as error:
        return f"unknown ROS arguments: {error}"
    except UnicodeEncodeError as error:
        return f"expected arguments in UTF-8; got {error.object!r}"
    except RuntimeError as error:
        return str(error) or type(error).__name__
    return ""


def settle_memory() -> None:
    """Collect garbage, and exclude all objects made so far from later collections.

    These objects live as long as the process, or until their owner releases something large and calls
    `settle_memory_again`; examining them would take tens of milliseconds each time.
    """
    gc.collect()
    gc.freeze()


def settle_memory_again() -> None:
    """Collect all garbage, also among the excluded objects, and exclude the remaining ones."""
    gc.unfreeze()
    settle_memory()


def _call(node: Node, method: Callable[[], object]) -> int:
    """Call a method at the end of a node; a failure is reported and does not affect the other nodes."""
    try:
        method()
    except Exception as error:
        return _report(error, [node])
    return 0


def _report(error: Exception, nodes: Sequence[Node]) -> int:
    """Report an error in one line; an unexpected one is logged by the node it came from, if known."""
    if isinstance(error, _EXPECTED):
        return _print_error(error, EXIT_FAILURE)
    found = culprits(nodes, error)
    names = ", ".join(node.get_fully_qualified_name() for node in found) or "no node yet"
    logger = found[0].get_logger() if found else get_logger(os.path.basename(sys.argv[0]))
    logger.fatal(f"unexpected {type(error).__name__} in {names}: {one_line(error)}")
    logger.debug("".join(traceback.format_exception(error)))
    return EXIT_FAILURE


def _print_error(error: Exception | str, status: int) -> int:
    """Print an error as one line on standard error."""
    say(f"{os.path.basename(sys.argv[0])}: {one_line(error)}")
    return status


class _StopSignal:
    """A flag that stop signals set, waking the executor; further ones are ignored.

    Python runs signal handlers between two bytecodes of the main thread, which waits inside rcl. The wake-up
    socket is written at once, in the thread in which the signal arrives.
    """

    def __init__(self) -> None:
        stop_request.renew()
        self.requested = False
        self._executor: Executor | None = None
        self._lock = threading.Lock()
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        for number in stop_signals():
            signal.signal(number, self._ignore)
        threading.Thread(target=self._listen, name="stop_signal", daemon=True).start()

    def wakes(self, executor: Executor) -> None:
        """Set the executor to wake when a signal arrives."""
        self._executor = executor
        if self.requested:
            executor.create_task(_nothing)

    def releases(self) -> None:
        """Stop waking the executor."""
        with self._lock:
            self._executor = None

    def ignore(self) -> None:
        """Ignore signals while the interpreter exits."""
        for number in stop_signals():
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)

    def _listen(self) -> None:
        self._receiver.recv(1)
        stop_request.request()
        with self._lock:
            self.requested = True
            if self._executor is not None:
                # rclpy's spin_once only returns after it has run something, so give it an empty task.
                self._executor.create_task(_nothing)
        end_within(STOP_DEADLINE)

    @staticmethod
    def _ignore(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: the wake-up socket has been written."""


def _nothing() -> None:
    pass
