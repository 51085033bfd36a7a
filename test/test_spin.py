"""How executables start and stop: signals, fatal errors, callbacks that hang."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from testdata.running_nodes.waiting_programs import WaitingPrograms
from testdata.timeouts import PATIENCE

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

PROGRAM = """
import sys, time
from rclpy.node import Node
from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.process import process_end, spin

class Tick(Node):
    def __init__(self):
        super().__init__("tick")
        self.create_timer(0.01, self.tick)

    def tick(self):
        print("tick", flush=True)
        {tick}

    def destroy_node(self):
        print("released", flush=True)
        super().destroy_node()

spin.STOP_DEADLINE, process_end.GRACE = {deadline}, {grace}
sys.exit(spin.run(lambda: [Tick()]))
"""


@pytest.fixture
def ticking(ros_domain: int) -> Any:  # noqa: ARG001
    """Start a node whose timer runs the given line, and wait for its first tick.

    It stops within `deadline` s, by default as late as a process that stands still may need; if it does not,
    it is ended with a word, however late that comes.
    """
    programs = WaitingPrograms()

    def start(tick: str, deadline: float = PATIENCE) -> Any:
        program = PROGRAM.format(tick=tick, deadline=deadline, grace=PATIENCE)
        return programs.start(program, first_line="tick")

    yield start
    programs.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_status_0_and_no_word(ticking: Any, number: int) -> None:
    process = ticking("pass")
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")


def test_an_impatient_user_does_not_disturb_the_end(ticking: Any) -> None:
    process = ticking("pass")
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")


def test_a_fatal_error_is_one_line_and_status_1(ticking: Any) -> None:
    process = ticking("raise FatalError('the\\n  chip melted')")
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (1, "-c: the chip melted\n")


def test_an_exception_in_a_callback_is_one_log_line_and_the_process_continues(ticking: Any) -> None:
    process = ticking("raise ZeroDivisionError('by\\n  nothing')")
    assert process.stdout.readline() == "tick\n"
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    line = errors.splitlines()[0]
    assert line.startswith("[ERROR] ")
    assert line.endswith("[tick]: Tick.tick: unexpected ZeroDivisionError: by nothing")
    assert (process.returncode, output.splitlines()[-1]) == (0, "released")


def test_what_modules_log_and_what_ends_a_thread_is_a_line_of_the_node_s_log(ticking: Any) -> None:
    process = ticking(
        "import logging, threading; self.destroy_timer(list(self.timers)[0]); "
        "logging.getLogger('a.b').error('%s is lost', 'it', exc_info=ValueError('a\\n b')); "
        "logging.warning('hot'); import warnings; warnings.warn('odd\\n sum'); "
        "thread = threading.Thread(target=lambda: {}[1], name='t'); "
        "thread.start(); thread.join(); print('logged', flush=True)"
    )
    assert process.stdout.readline() == "logged\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert [(line.split()[0], line.partition("[tick]: ")[2]) for line in errors.splitlines()] == [
        ("[ERROR]", "it is lost: unexpected ValueError: a b"),
        ("[WARN]", "hot"),
        ("[WARN]", "<string>:14: UserWarning: odd sum"),
        ("[ERROR]", "the thread t has ended: unexpected KeyError: 1"),
    ]


def test_a_callback_that_hangs_does_not_keep_the_process(ticking: Any) -> None:
    from edgetpu_driver.node_kit.process.spin import STOP_DEADLINE

    assert STOP_DEADLINE < 3
    process = ticking("time.sleep(600)", STOP_DEADLINE)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (1, "did not stop in time; ended without closing what was open\n")


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        ("", 2048 << 20),
        ("x", 2048 << 20),
        ("300", 300 << 20),
        ("0", -1),
        ("1", 256 << 20),
        ("9" * 30, 9_999_999_999 << 20),
    ],
)
def test_memory_is_limited_before_anything_is_imported(value: str, limit: int) -> None:
    program = (
        "import resource; from edgetpu_driver.node_kit import process_entry as entry; entry._prepare(); "
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    )
    environment = os.environ | {"EDGETPU_MEMORY_LIMIT": value}
    output = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    assert int(output) == limit


def test_the_memory_of_an_image_serves_the_next_one() -> None:
    program = (
        "import ctypes, resource\n"
        "from edgetpu_driver.node_kit.process_entry import _prepare\n"
        "_prepare()\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]\n"
        "def take():\n"
        "    block = libc.malloc(640 * 480)\n"
        "    ctypes.memset(ctypes.c_void_p(block), 1, 640 * 480)\n"
        "    libc.free(block)\n"
        "take()\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "before = faults()\n"
        "for _ in range(10): take()\n"
        "print(faults() - before < 75)\n"  # one new block has 75 pages
    )
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("needs glibc")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


def test_memory_kept_for_large_requests_is_released() -> None:
    program = (
        "from pathlib import Path\n"
        "from edgetpu_driver.node_kit.process import unused_memory\n"
        "unused_memory.reuse_large_blocks()\n"
        "pages = lambda: int(Path('/proc/self/statm').read_text().split()[1])\n"
        "block = bytearray(b'x') * (16 << 20)\n"
        "used = pages()\n"
        "del block\n"
        "kept = pages()\n"
        "unused_memory.release_unused_memory()\n"
        "print(used - kept < 100, used - pages() > 4000)\n"
    )
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("needs glibc")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "True True\n"


def test_touched_memory_is_taken_without_page_faults() -> None:
    program = (
        "import ctypes, resource\n"
        "from edgetpu_driver.node_kit.process.touched_memory import touch_memory\n"
        "from edgetpu_driver.node_kit.process.unused_memory import reuse_large_blocks\n"
        "reuse_large_blocks()\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "touch_memory(32 << 20)\n"
        "before = faults()\n"
        "for _ in range(2): ctypes.memset(ctypes.c_void_p(libc.malloc(16 << 20)), 1, 16 << 20)\n"
        "print(faults() - before < 820)\n"  # a tenth of the pages
    )
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("needs glibc")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


def test_closed_standard_streams_do_not_become_a_socket() -> None:
    program = (
        "import os; from edgetpu_driver.files.standard_streams import fill_standard_streams as fill; "
        "streams = [os.dup(number) for number in range(3)]; [os.close(number) for number in range(3)]; "
        "fill(); names = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)]; "
        "os.write(streams[1], repr(names).encode())"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output == repr(["/dev/null"] * 3)


def test_a_stop_that_takes_too_long_ends_it_even_if_its_standard_error_is_not_read(ticking: Any) -> None:
    process = ticking("time.sleep(600)", deadline=0.2)
    process.stderr.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 1


STUCK = """
import ctypes, sys
from edgetpu_driver.node_kit.process import spin
from edgetpu_driver.node_kit.base_node import BaseNode
from edgetpu_driver.node_kit.fatal_error import FatalError

spin.STOP_DEADLINE = {deadline}

class Stuck(BaseNode):
    def __init__(self):
        super().__init__("stuck")
        with self.destroyed_on_error():
            {start}

    def destroy_node(self):
        print("stuck", flush=True)
        ctypes.PyDLL(None).sleep(100)  # keeps the interpreter's lock, as rclpy does while it destroys a node

sys.exit(spin.run(lambda: [Stuck()]))
"""


def test_a_middleware_that_hangs_does_not_keep_the_process(ros_domain: int) -> None:  # noqa: ARG001
    start = "self.create_timer(0.01, lambda: print('runs', flush=True))"
    program = STUCK.format(start=start, deadline=0.2)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 1


def test_the_reason_why_a_node_does_not_start_is_logged_before_the_middleware_hangs(ros_domain: int) -> None:  # noqa: ARG001
    # Until it hangs, it could still be ended with a word: not for as long as it may stand still before.
    program = STUCK.format(start="raise FatalError('no such thing')", deadline=5.0)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "stuck\n", "-c: no such thing\n")


TWO = """
import os, signal, sys
from edgetpu_driver.node_kit.process import spin
from edgetpu_driver.node_kit.base_node import BaseNode
from rclpy.node import Node

class Own(BaseNode):
    def on_stop(self):
        print(self.get_name(), "stops")
        raise ZeroDivisionError("by nothing")

    def destroy_node(self):
        print(self.get_name(), "ends")
        super().destroy_node()

def make():
    os.kill(os.getpid(), signal.SIGTERM)
    return [Own("a"), Node("foreign"), Own("b")]

sys.exit(spin.run(make))
"""


def test_all_nodes_are_told_of_the_stop_before_the_first_is_destroyed(ros_domain: int) -> None:  # noqa: ARG001
    ended = subprocess.run([sys.executable, "-c", TWO], capture_output=True, text=True, timeout=60)
    assert ended.stdout.splitlines() == ["a stops", "b stops", "b ends", "a ends"]
    assert [line.split("]: ")[-1] for line in ended.stderr.splitlines()] == [
        "unexpected ZeroDivisionError in /a: by nothing",
        "unexpected ZeroDivisionError in /b: by nothing",
    ]
    assert ended.returncode == 1


def test_under_nohup_a_closed_terminal_does_not_stop_it() -> None:
    program = (
        "import signal; from edgetpu_driver.node_kit.process.stop_signals import stop_signals; "
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); print([number.name for number in stop_signals()])"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output == "['SIGINT', 'SIGTERM']\n"
