"""A process of nodes that stops when the one that has started it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from edgetpu_driver.node_kit.process.process_end import STARTER_VARIABLE

NODE = """
import os, signal, sys
from edgetpu_driver.node_kit.process.process_end import stop_with_starter
signal.signal(signal.SIGINT, lambda *_: (os.write(1, b"stopped\\n"), os._exit(0)))
woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
stop_with_starter()
print("runs", flush=True)
os.read(woken, 1)  # unlike signal.pause(), it also ends if the signal has just come
"""
STARTER = f"""
import os, signal, subprocess, sys
environment = os.environ | {{"{STARTER_VARIABLE}": str(os.getpid())}}
subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment, start_new_session=True)
signal.pause()
"""


def test_a_node_stops_when_its_starter_is_killed() -> None:
    command = [sys.executable, "-c", STARTER, NODE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "runs\n"
        starter.kill()
        assert starter.stdout.read() == "stopped\n"


def test_a_node_stops_whose_starter_has_ended_before() -> None:
    environment = os.environ | {STARTER_VARIABLE: "1"}
    found = subprocess.run([sys.executable, "-c", NODE], env=environment, capture_output=True, text=True)
    assert found.stdout == "stopped\n"


def test_a_node_without_a_starter_runs_on() -> None:
    with subprocess.Popen([sys.executable, "-c", NODE], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == "runs\n"
        assert node.poll() is None
        node.send_signal(signal.SIGINT)
        assert node.stdout.read() == "stopped\n"
