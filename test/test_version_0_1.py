"""Recorded bags and parameter files of version 0.1 still work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")
pytest.importorskip("rosbags", reason="needs rosbags")

from rclpy.serialization import deserialize_message, serialize_message
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from demo.bag.appended_fields import extended_message
from demo.bag.image_bag import IMAGE, ImageBag
from demo.errors import BagError
from demo.upgrade_bag import main
from edgetpu_msgs.msg import DeviceStatus, PatternMatch, Spectrum, TimeToContact

ROOT = Path(__file__).parents[1]
DEFINITIONS = {
    "DeviceStatus": """
        builtin_interfaces/Time stamp
        uint8 state
        string message
        string backend
        string serial
        string bus_path
        float32 link_speed
        string firmware
        string clock_preset
        float32 temperature
        string[] resident_models
        uint64 sram_used
        uint64 sram_total
        float32 utilisation
        uint64 inferences
        uint64 uploads
        uint64 bytes_sent
        uint64 bytes_received
        uint64 retries
        uint64 recoveries
        uint64 dropped
        uint64 thermal_warnings
        float32 latency_p50
        float32 latency_p99
    """,
    "Spectrum": """
        std_msgs/Header header
        bool valid
        float32 sample_rate
        float32 frequency_step
        float32[] amplitudes
        float32 sigma
        float32 peak_frequency
        float32 peak_amplitude
    """,
    "PatternMatch": """
        std_msgs/Header header
        bool valid
        float32 confidence
        bool ambiguous
        float32 x
        float32 y
        float32 width
        float32 height
        float32 x_sigma
        float32 y_sigma
        float32 score
        float32 runner_up_score
    """,
    "TimeToContact": """
        std_msgs/Header header
        bool valid
        float32 confidence
        float32 ttc
        float32 ttc_sigma
        float32 expansion_rate
        float32 expansion_rate_sigma
        float32 tau
        float32[9] zones
    """,
}
"""The messages of version 0.1 that have more fields today; all others are the same."""
COMMON = {"driver", "model", "model_dir", "qos_depth", "qos_reliability"}
PERCEPTION = COMMON | {
    *("horizontal_fov", "image_transport", "min_confidence", "rate_limit", "rectified", "roi"),
}
MATRIX = COMMON | {"input_fields", "input_type", "passes", "rescale_rows"}
PARAMETERS = {
    "edgetpu": {
        *("autostart", "backend", "bus_path", "firmware", "model_dirs", "models", "performance", "serial"),
        *("status_period", "wait_for_device_timeout"),
    },
    "spot_tracker": PERCEPTION | {"color"},
    "looming": PERCEPTION | {"size"},
    "optical_flow": PERCEPTION,
    "visual_compass": PERCEPTION | {"tilt"},
    "pattern_tracker": PERCEPTION | {"accept_ambiguous", "search_size", "template", "template_size"},
    "reservoir": MATRIX
    | {
        *("activation", "bias", "directory", "horizon", "host_directions", "input_scaling", "leak"),
        *("readout", "regularization", "seed", "size", "spectral_radius", "target_fields", "target_type"),
        "washout",
    },
    "place_recognition": MATRIX | {"capacity", "count", "directory", "min_score", "places"},
    "spectrum": MATRIX | {"input_format", "length", "overlap", "sample_rate", "window"},
}
"""The parameters of version 0.1, by node."""

STORE = get_typestore(Stores.ROS2_JAZZY)
for _name, _text in DEFINITIONS.items():
    STORE.register(get_types_from_msg(_text, f"edgetpu_msgs/msg/{_name}"))


def header() -> Any:
    stamp = STORE.types["builtin_interfaces/msg/Time"](sec=7, nanosec=250)
    return STORE.types["std_msgs/msg/Header"](stamp, "camera")


def of_0_1(name: str, *values: Any) -> bytes:
    """A message of version 0.1, serialised."""
    kind = f"edgetpu_msgs/msg/{name}"
    return bytes(STORE.serialize_cdr(STORE.types[kind](*values), kind))


def time_to_contact() -> bytes:
    return of_0_1(
        "TimeToContact", header(), True, 0.5, 2.0, 0.25, 0.5, 0.125, 1.5, np.arange(9, dtype=np.float32)
    )


def write_bag(path: Path, plugin: StoragePlugin) -> Path:
    """A bag with an image and a result of looming."""
    image = STORE.types[IMAGE](header(), 2, 2, "mono8", 0, 2, np.arange(4, dtype=np.uint8))
    result = "edgetpu_msgs/msg/TimeToContact"
    with Writer(path, version=9, storage_plugin=plugin) as bag:
        images = bag.add_connection("/image", IMAGE, typestore=STORE)
        results = bag.add_connection("/looming/time_to_contact", result, typestore=STORE)
        bag.write(images, 8, bytes(STORE.serialize_cdr(image, IMAGE)))
        bag.write(results, 9, time_to_contact())
    return path


def test_a_time_to_contact_claims_no_approach_and_has_no_region() -> None:
    message = deserialize_message(
        extended_message(time_to_contact(), "edgetpu_msgs/msg/TimeToContact"), TimeToContact
    )
    assert (message.header.stamp.sec, message.header.frame_id) == (7, "camera")
    assert (message.valid, message.ttc, message.expansion_rate, message.tau) == (True, 2.0, 0.5, 1.5)
    assert list(message.zones) == list(range(9))
    assert not message.approaching
    assert (message.region.width, message.region.height) == (0, 0)


def test_a_spectrum_was_not_resampled() -> None:
    amplitudes = np.array([0.5, 1.0, 0.25], np.float32)
    data = of_0_1("Spectrum", header(), True, 100.0, 0.5, amplitudes, 0.125, 0.5, 1.0)
    message = deserialize_message(extended_message(data, "edgetpu_msgs/msg/Spectrum"), Spectrum)
    assert list(message.amplitudes) == [0.5, 1.0, 0.25]
    assert (message.sample_rate, message.peak_frequency, message.peak_amplitude) == (100.0, 0.5, 1.0)
    assert not message.resampled


def test_a_match_has_no_scale() -> None:
    data = of_0_1("PatternMatch", header(), True, 0.5, False, 10.0, 20.0, 16.0, 8.0, 0.25, 0.5, 0.75, 0.125)
    message = deserialize_message(extended_message(data, "edgetpu_msgs/msg/PatternMatch"), PatternMatch)
    assert (message.valid, message.x, message.width, message.runner_up_score) == (True, 10.0, 16.0, 0.125)
    assert (message.scale, message.scale_sigma) == (0.0, 0.0)


def test_a_status_lists_no_stick() -> None:
    texts = ("", "virtual", "", "1-1")
    counters = (10, 2, 300, 400, 1, 1, 0, 0)
    data = of_0_1(
        "DeviceStatus",
        *(header().stamp, DeviceStatus.READY, *texts, 5000.0, "1.0", "high", 40.0, ["spot"], 64, 128, 0.5),
        *(*counters, 0.25, 0.5),
    )
    message = deserialize_message(extended_message(data, "edgetpu_msgs/msg/DeviceStatus"), DeviceStatus)
    assert (message.state, message.backend, message.bus_path) == (DeviceStatus.READY, "virtual", "1-1")
    assert (message.resident_models, message.inferences, message.latency_p99) == (["spot"], 10, 0.5)
    assert (message.waiting, message.expired, message.refused) == (0, 0, 0)
    assert (message.sticks, message.uploaded_models, list(message.uploads_of_models)) == ([], [], [])


def test_a_message_of_today_stays_as_it_is() -> None:
    data = bytes(serialize_message(Spectrum(peak_frequency=0.5, resampled=True)))
    assert extended_message(data, "edgetpu_msgs/msg/Spectrum") == data


def test_bytes_of_another_message_type_are_refused() -> None:
    with pytest.raises(BagError, match="expected a message edgetpu_msgs/msg/Spectrum or its beginning"):
        extended_message(b"\0\1\0\0" + b"\xff" * 40, "edgetpu_msgs/msg/Spectrum")
    with pytest.raises(BagError, match="no message type edgetpu_msgs/msg/Nothing"):
        extended_message(b"", "edgetpu_msgs/msg/Nothing")


@pytest.mark.parametrize("plugin", list(StoragePlugin), ids=lambda plugin: plugin.name.lower())
def test_the_demo_replays_the_images_of_a_bag(tmp_path: Path, plugin: StoragePlugin) -> None:
    with ImageBag(write_bag(tmp_path / "old", plugin)) as bag:
        assert [record.stamp_ns for record in bag.records()] == [7_000_000_250]


@pytest.mark.parametrize("plugin", list(StoragePlugin), ids=lambda plugin: plugin.name.lower())
def test_a_bag_is_rewritten_with_today_s_messages(
    tmp_path: Path, plugin: StoragePlugin, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = write_bag(tmp_path / "old", plugin), tmp_path / "new"
    assert main([str(old), str(new)]) == 0
    assert capsys.readouterr().out == f"/looming/time_to_contact: 1 messages extended\nwrote {new}\n"
    with Reader(old) as before, Reader(new) as after:
        messages = [(each.topic, time, bytes(data)) for each, time, data in after.messages()]
        (image,) = (bytes(data) for each, _, data in before.messages() if each.topic == "/image")
    assert messages[0] == ("/image", 8, image)
    topic, time, data = messages[1]
    assert (topic, time) == ("/looming/time_to_contact", 9)
    assert deserialize_message(data, TimeToContact).ttc == 2.0


def test_a_bag_is_not_written_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = write_bag(tmp_path / "old", StoragePlugin.MCAP)
    assert main([str(old), str(old)]) == 1
    assert capsys.readouterr().err == f"[upgrade_bag] {old} exists already\n"


def test_a_bag_that_cannot_be_read_to_its_end_leaves_no_half_of_a_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    old, new = write_bag(tmp_path / "old", StoragePlugin.MCAP), tmp_path / "new"
    monkeypatch.setattr("demo.bag.appended_fields.extended_message", interrupt)
    assert main([str(old), str(new)]) == 130
    assert capsys.readouterr().err == "[upgrade_bag] interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_new_bag_that_cannot_be_written_is_not_blamed_on_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = write_bag(tmp_path / "old", StoragePlugin.MCAP), tmp_path / "file" / "new"
    new.parent.write_text("")
    assert main([str(old), str(new)]) == 1
    assert capsys.readouterr().err == f"[upgrade_bag] cannot write {new}: Not a directory\n"


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "config" / "edgetpu.yaml").read_text()))


@pytest.mark.parametrize("node", PARAMETERS)
def test_a_node_still_has_its_parameters(node: str, config: dict[str, Any]) -> None:
    present = {name for key in ("/**/*", f"/**/{node}") for name in config[key]["ros__parameters"]}
    assert PARAMETERS[node] - present == set()
