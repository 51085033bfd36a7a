"""The parameters of the driver node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from edgetpu_driver.backends.factory import BACKENDS
from edgetpu_driver.files import default_paths
from edgetpu_driver.files.file_access import user_path
from edgetpu_driver.host.client_limits import ClientLimits
from edgetpu_driver.host.sticks.model_spreading import Spreading
from edgetpu_driver.node_kit.middleware.qos_profiles import QOS_SERVICE
from edgetpu_driver.node_kit.parameters import Setting

_LIMITS = ClientLimits()


def default_firmware() -> str:
    """Return the path of the image to load unless `firmware` names one; empty if there is no such file."""
    path = default_paths.firmware_path()
    return str(path) if os.path.isfile(path) else ""


def _missing_file(path: str) -> str | None:
    return f"expected a file; there is no {path}" if path and not os.path.isfile(user_path(path)) else None


SETTINGS = (
    Setting(
        "backend",
        "usb",
        "What runs the models: usb (a Coral USB Accelerator), virtual (a simulated one) or cpu (LiteRT).",
        choices=BACKENDS,
    ),
    Setting("serial", "", "USB serial number of the stick to use. Empty: the only one connected."),
    Setting(
        "bus_path",
        "",
        "Bus path of the stick to use, such as 2-1.4 (see ~/status); most sticks have no serial number. "
        "Empty: any.",
    ),
    Setting(
        "devices",
        [],
        "Serial numbers or bus paths of several sticks that share the work; [all]: those that are connected. "
        "Empty: one stick, see serial and bus_path.",
    ),
    Setting(
        "spreading",
        Spreading.REPLICATED.value,
        "How models are assigned to several sticks: replicated (each stick has all, but segments of a "
        "pipeline are spread) or spread (each model is on one stick; those compiled together are on the "
        "same).",
        choices=tuple(each.value for each in Spreading),
    ),
    Setting(
        "share_inferences",
        True,
        "Answer requests of several nodes for the same image by one inference; if their models are in the "
        "suite's catalogue, one graph computes all of them. false: one inference for each request.",
    ),
    Setting(
        "self_check_period",
        0.0,
        "Period in which each stick repeats an inference whose result is known, s; a stick with a different "
        "result is taken out of service. 0: never.",
        minimum=0.0,
        maximum=86400.0,
    ),
    Setting(
        "firmware",
        "",
        "Path of the firmware image for a stick in boot mode, the mode it is in after it was plugged in. "
        f"Empty: edgetpu/{default_paths.FIRMWARE_FILE} in $ROS_HOME or ~/.ros, if it exists.",
        check=_missing_file,
    ),
    Setting(
        "performance",
        "high",
        "Clock preset of the stick: 63, 125, 250 or 500 MHz. A faster clock makes it hotter.",
        choices=("low", "medium", "high", "max"),
    ),
    Setting(
        "model_dirs",
        [str(default_paths.default_model_dir())],
        "Directories models may be loaded from, searched in this order; ~ and $VARIABLES are expanded. "
        "Empty: edgetpu/models in $ROS_HOME or ~/.ros.",
        default_text="edgetpu/models in $ROS_HOME or ~/.ros",
    ),
    Setting(
        "models",
        [],
        "Models to load at start: file stems, file names or paths inside model_dirs; of a pipeline, those of "
        "its segments in their order, separated by commas. Empty: none.",
    ),
    Setting(
        "wait_for_device_timeout",
        -1.0,
        "Time to wait at start for the device, s, before the driver exits with status 1. -1: no limit.",
        minimum=-1.0,
        maximum=86400.0,
    ),
    Setting(
        "status_period",
        1.0,
        "Period of ~/status, s, which is also the window of its latencies.",
        minimum=0.1,
        maximum=60.0,
    ),
    Setting(
        "litert_memory",
        1024,
        "Memory for a graph that is not one of the suite's own, in the process that runs it, beyond what "
        "LiteRT itself takes, MB.",
        minimum=16,
        maximum=65536,
    ),
    Setting(
        "litert_load_timeout",
        5.0,
        "Time for a LiteRT process to load its graph, s.",
        minimum=0.1,
        maximum=600.0,
    ),
    Setting(
        "litert_run_timeout",
        5.0,
        "Time for a LiteRT process to run its graph once, s.",
        minimum=0.1,
        maximum=600.0,
    ),
    Setting(
        "autostart",
        True,
        "Configure and activate at start. false: a lifecycle manager does it.",
    ),
    Setting(
        "service_depth",
        QOS_SERVICE.depth,
        "Requests and answers that the middleware queues for each service. It loses further ones silently, "
        "so at least as many as all clients together have in flight; the clients need queues of the same "
        "depth.",
        1,
        100_000,
    ),
    Setting(
        "max_waiting",
        _LIMITS.waiting,
        "Requests of all clients that may wait. Further ones are answered BUSY.",
        1,
        1_000_000,
    ),
    Setting(
        "max_waiting_per_client",
        _LIMITS.waiting_per_client,
        "Requests of one client that may wait; clients that do not give their name count as one. Further "
        "ones are answered BUSY.",
        1,
        1_000_000,
    ),
    Setting(
        "max_wait",
        _LIMITS.wait,
        "Time that a request without a deadline may wait before it is begun, s; then it is answered BUSY.",
        0.1,
        86400.0,
    ),
    Setting("max_batch", _LIMITS.batch, "Vectors in one product.", 1, 2**31 - 1),
    Setting("max_passes", _LIMITS.passes, "Repetitions of one product.", 1, 65536),
    Setting("max_tiles", _LIMITS.tiles, "Tiles of the model's size that one matrix may take.", 1, 65536),
    Setting(
        "max_inferences",
        _LIMITS.inferences,
        "Inferences of one product: vectors times passes times tiles.",
        1,
        2**31 - 1,
    ),
    Setting("max_models", _LIMITS.models, "Models that may be loaded, counted by name.", 1, 65536),
    Setting(
        "max_model_bytes",
        _LIMITS.model_bytes,
        "Size of all loaded model files together.",
        1,
        2**40,
    ),
)


def client_limits(values: Mapping[str, Any]) -> ClientLimits:
    """Return the limits that the parameters name."""
    return ClientLimits(
        waiting_per_client=values["max_waiting_per_client"],
        waiting=values["max_waiting"],
        wait=values["max_wait"],
        batch=values["max_batch"],
        passes=values["max_passes"],
        tiles=values["max_tiles"],
        inferences=values["max_inferences"],
        models=values["max_models"],
        model_bytes=values["max_model_bytes"],
    )
