"""Prepares the whole run: imports the packages before the folders of the same name, accepts signals.

Nothing that a test starts or calls writes to the user's ~/.ros.
"""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before NumPy and OpenCV are loaded: test processes share the cores, and more threads would only spin.
os.environ.update({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENCV_FOR_THREADS_NUM": "1"})

# Before messages are imported: their fields refuse values of other types, as always in ROS 2 Humble.
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"

import edgetpu_control  # noqa: F401
import edgetpu_dashboard  # noqa: F401
import edgetpu_driver  # noqa: F401
import edgetpu_matrix  # noqa: F401
import edgetpu_perception  # noqa: F401
import edgetpu_vision  # noqa: F401
from edgetpu_driver.files import detached_reading
from testdata.timeouts import PATIENCE

pytest_plugins = ["testdata.pytest_plugin"]

# A background shell starts its commands with SIGINT ignored, nohup with SIGHUP; processes would inherit that.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture(scope="module", autouse=True)
def ros_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """ROS_HOME of the tests of one module and of the processes that they start."""
    folder = tmp_path_factory.mktemp("ros_home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def patient_readings() -> Iterator[None]:
    """Files are lost if they do not answer for PATIENCE: a busy machine may hold up the thread that reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detached_reading, "LONGEST", PATIENCE)
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave the tests, which live as long as the process, out of all collections of garbage."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()
