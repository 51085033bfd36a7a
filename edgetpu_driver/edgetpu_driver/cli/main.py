"""Runs one subcommand: results go to standard output, everything else to standard error."""

from __future__ import annotations

import codecs
import contextlib
import errno
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from edgetpu_driver.cli.command_options import parser
from edgetpu_driver.cli.keyboard_interrupt import ending_at_once
from edgetpu_driver.cli.terminal import Answer, Progress, printable, say, to_json
from edgetpu_driver.errors import DeviceError, EdgeTpuError, reason_of
from edgetpu_driver.files.standard_streams import fill_standard_streams

EXIT_FAILURE = 1
"""Exit status for a faulty model, input or check."""
EXIT_USAGE = 2
"""Exit status for wrong usage. Given by argparse."""
EXIT_DEVICE = 3
"""Exit status if no stick can be used."""
EXIT_INTERRUPTED = 130
"""Exit code in shells after SIGINT: 128 + 2."""
EXIT_BROKEN_PIPE = 141
"""Exit code in shells after SIGPIPE: 128 + 13."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process, and return the exit status."""
    try:
        return _run(arguments)
    finally:
        _drop_unwritten(sys.stdout)
        _drop_unwritten(sys.stderr)


def _run(arguments: Sequence[str] | None) -> int:
    fill_standard_streams()
    if sys.stderr is None:  # `edgetpu .. 2>&-`: messages for it would go to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - in use until the process ends
    try:
        with ending_at_once():
            options = parser().parse_args(arguments)
    except OSError:  # argparse of Python 3.10 does not exit if it cannot write why
        return EXIT_USAGE
    logging.basicConfig(format="edgetpu: %(message)s", level=logging.WARNING)
    try:
        with ending_at_once():
            module = importlib.import_module(f"edgetpu_driver.cli.{options.module}")
        for number in (signal.SIGTERM, signal.SIGHUP):  # so that a stick in use is shut down
            if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGHUP is under nohup
                signal.signal(number, signal.default_int_handler)
        answer: Answer = getattr(module, options.function)(options, Progress())
        _write(_json(answer.value) if options.json else printable(answer.text))
        return answer.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `edgetpu .. | head`
        return EXIT_BROKEN_PIPE
    except (EdgeTpuError, ImportError, MemoryError, OSError) as error:
        return _print_error(error, options.json)


def _json(value: Any) -> str:
    """JSON that standard output can take: the escapes of `_write` would not be valid in it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return to_json(value, ascii_only=codecs.lookup(encoding).name != "utf-8")


def _write(text: str) -> None:
    """Write to standard output, escaping characters that its encoding lacks; OSError if it is closed."""
    if sys.stdout is None:  # `edgetpu .. >&-`
        raise OSError(errno.EBADF, "standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def _drop_unwritten(stream: TextIO | None) -> None:
    """Discard unwritten output if the stream fails; otherwise Python would exit with status 120."""
    if stream is None:  # it is closed
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_error(error: Exception, as_json: bool) -> int:
    """Report an error in one line; with --json on standard output too."""
    message = reason_of(error) or type(error).__name__
    if as_json:
        with contextlib.suppress(OSError):  # which may be the very error
            _write(_json({"error": {"kind": type(error).__name__, "message": message}}))
    say(printable(message))
    return EXIT_DEVICE if isinstance(error, DeviceError) else EXIT_FAILURE
