"""Prepares the whole run: imports the packages before the folders of the same name, accepts SIGINT."""

import signal

import edgetpu_driver  # noqa: F401
import edgetpu_matrix  # noqa: F401
import edgetpu_perception  # noqa: F401
import edgetpu_vision  # noqa: F401

pytest_plugins = ["testdata.pytest_plugin"]

# A background shell starts its commands with SIGINT ignored, and processes started here would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
