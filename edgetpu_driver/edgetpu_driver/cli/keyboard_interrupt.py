"""What Ctrl-C does while the command is loaded, and while Python exits."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process in this context, in which there is nothing to clean up.

    An import stopped by KeyboardInterrupt may raise any error: NumPy reports a faulty installation.
    """
    usual = (signal.default_int_handler, signal.SIG_DFL)  # the second as set by bin/edgetpu
    if signal.getsignal(signal.SIGINT) not in usual:  # such as ignored, in a script
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_at_once() -> None:
    """From now on, let Ctrl-C, and SIGTERM and SIGHUP if they are treated like it, end the process at once.

    Nothing has to be cleaned up while Python exits, and interrupting its exit would show a traceback.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.default_int_handler:
            signal.signal(number, signal.SIG_DFL)
