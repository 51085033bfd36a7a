"""The parameters of the driver node."""

from __future__ import annotations

from pathlib import Path

from edgetpu_driver.backends.factory import BACKENDS
from edgetpu_driver.node_kit.parameters import Setting
from edgetpu_driver.toolchain import model_files

"""What the vendor calls the image."""


def default_model_dir() -> str:
    """Give the directory in which models are looked for unless `model_dirs` says otherwise."""
    return str(model_files.default_model_dir())


def default_firmware() -> str:
    """Give the image to load unless `firmware` names one; empty when it is not in its place."""
    path = model_files.firmware_path()
    return str(path) if path.is_file() else ""


def _missing_file(path: str) -> str | None:
    return f"expected a file; there is no {path}" if path and not Path(path).expanduser().is_file() else None


SETTINGS = (
    Setting(
        "backend",
        "usb",
        "What runs the models: usb (default, a Coral USB Accelerator), virtual (simulated) or cpu (LiteRT).",
        choices=BACKENDS,
    ),
    Setting("serial", "", "USB serial number of the stick to use. Empty (default): the only one there is."),
    Setting(
        "bus_path",
        "",
        "Bus path of the stick to use (such as 2-1.4, see ~/status), for sticks without a serial number, "
        "which is usual. Empty (default): any.",
    ),
    Setting(
        "firmware",
        "",
        "Path of the firmware image for a stick in boot mode, as it is after it was plugged in. "
        f"Empty (default): edgetpu/{model_files.FIRMWARE_FILE} in $ROS_HOME or ~/.ros, if it is there.",
        check=_missing_file,
    ),
    Setting(
        "performance",
        "high",
        "Clock preset of the stick: the faster the hotter. Default: high (250 MHz), the vendor's standard.",
        choices=("low", "medium", "high", "max"),
    ),
    Setting(
        "model_dirs",
        [default_model_dir()],
        "Directories models may be loaded from, searched in this order; ~ and $VARIABLES are expanded. "
        "Default: edgetpu/models in $ROS_HOME or ~/.ros.",
    ),
    Setting(
        "models",
        [],
        "Models to load at start: file stems, file names or paths inside model_dirs. Default: none.",
    ),
    Setting(
        "wait_for_device_timeout",
        -1.0,
        "Seconds to wait at start for the device before giving up. -1 (default): for ever.",
        minimum=-1.0,
        maximum=86400.0,
    ),
    Setting(
        "status_period",
        1.0,
        "Seconds between two messages on ~/status and the span its latencies are taken over. Default: 1.",
        minimum=0.1,
        maximum=60.0,
    ),
    Setting(
        "autostart",
        True,
        "Configure and activate at start. false: a lifecycle manager does it. Default: true.",
    ),
)
