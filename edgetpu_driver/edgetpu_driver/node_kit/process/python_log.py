"""Forwards Python's `logging`, `warnings` and uncaught exceptions of threads to the ROS log, a line each.

The modules below the nodes do not use ROS but `logging`, which would print to standard error only.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.logging import LoggingSeverity

from edgetpu_driver.node_kit.printable_text import describe, one_line

_log = logging.getLogger(__name__)


class RosLogHandler(logging.Handler):
    """Passes records on to a logger of ROS. The traceback of an exception goes to its level debug."""

    def __init__(self, logger: RcutilsLogger) -> None:
        super().__init__()
        self.logger = logger
        """The logger that gets the records; that of a node also publishes them on /rosout."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record; nothing is raised into the code that logs."""
        with suppress(Exception):
            self._pass_on(record)

    def _pass_on(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() if error is None else f"{record.getMessage()}: {describe(error)}"
        line = one_line(text)
        # rclpy refuses a line of code that logs at two levels.
        if record.levelno >= logging.ERROR:
            self.logger.error(line)
        elif record.levelno >= logging.WARNING:
            self.logger.warning(line)
        elif record.levelno >= logging.INFO:
            self.logger.info(line)
        else:
            self.logger.debug(line)
        if error is not None and self.logger.is_enabled_for(LoggingSeverity.DEBUG):
            self.logger.debug("".join(traceback.format_exception(error)))


@contextmanager
def python_log_to_ros(logger: RcutilsLogger) -> Iterator[RosLogHandler]:
    """Pass Python's log on to a logger of ROS inside the block; the handler can be given another logger."""
    handler, root, excepthook = RosLogHandler(logger), logging.getLogger(), threading.excepthook
    root.addHandler(handler)
    threading.excepthook = _on_thread_error
    logging.captureWarnings(True)
    try:
        yield handler
    finally:
        logging.captureWarnings(False)
        threading.excepthook = excepthook
        root.removeHandler(handler)


def _on_thread_error(ended: threading.ExceptHookArgs) -> None:
    name = ended.thread.name if ended.thread is not None else "that is gone"
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        _log.error("the thread %s has ended", name, exc_info=ended.exc_value)
