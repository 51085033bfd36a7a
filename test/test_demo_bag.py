"""The demo reads the images of a rosbag2; what is wrong with one is said in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="needs rosbags")

from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from demo.bag.image_bag import CAMERA_INFO, COMPRESSED_IMAGE, IMAGE, ORIENTATION, ImageBag, header_stamp
from demo.errors import BagError
from demo.scene.scene_bag import write_scene
from edgetpu_dashboard.scene.scene import Scene

STORE = get_typestore(Stores.ROS2_JAZZY)


@pytest.fixture(scope="module")
def rendered_scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scene(tmp_path_factory.mktemp("rendered") / "scene", Scene(frames=3))


@pytest.fixture
def scene(rendered_scene: Path, tmp_path: Path) -> Path:
    """A bag of three pictures."""
    return shutil.copytree(rendered_scene, tmp_path / "scene")


def write(path: Path, topics: dict[str, str], plugin: StoragePlugin = StoragePlugin.SQLITE3) -> Path:
    """A bag with one message on each topic, of type Image, CompressedImage or String."""
    time = STORE.types["builtin_interfaces/msg/Time"](sec=7, nanosec=250)
    header = STORE.types["std_msgs/msg/Header"](stamp=time, frame_id="camera")
    data = np.zeros(4, np.uint8)
    messages = {
        IMAGE: STORE.types[IMAGE](header, 2, 2, "mono8", 0, 2, data),
        COMPRESSED_IMAGE: STORE.types[COMPRESSED_IMAGE](header, "jpeg", data),
        "std_msgs/msg/String": STORE.types["std_msgs/msg/String"]("hello"),
    }
    with Writer(path, version=9, storage_plugin=plugin) as bag:
        for topic, kind in topics.items():
            connection = bag.add_connection(topic, kind, typestore=STORE)
            bag.write(connection, 9, STORE.serialize_cdr(messages[kind], kind))
    return path


@pytest.mark.parametrize("plugin", list(StoragePlugin), ids=lambda plugin: plugin.name.lower())
def test_the_only_image_topic_is_found(tmp_path: Path, plugin: StoragePlugin) -> None:
    path = write(tmp_path / "bag", {"/chatter": "std_msgs/msg/String", "/cam/image_raw": IMAGE}, plugin)
    with ImageBag(path) as bag:
        assert (bag.topic.name, bag.topic.type, bag.topic.count) == ("/cam/image_raw", IMAGE, 1)
        assert not bag.topic.compressed
        assert bag.topic.camera_info is None


def test_records_carry_stamp_time_and_the_bytes_as_they_were_written(tmp_path: Path) -> None:
    with ImageBag(write(tmp_path / "bag", {"/image": IMAGE})) as bag:
        (record,) = bag.records()
    assert (record.topic, record.stamp_ns, record.time_ns) == ("/image", 7_000_000_250, 9)
    assert STORE.deserialize_cdr(record.cdr, IMAGE).encoding == "mono8"


def test_a_single_storage_file_is_a_bag_too(tmp_path: Path) -> None:
    path = write(tmp_path / "bag", {"/image": IMAGE})
    with ImageBag(path / "bag.db3") as bag:
        assert len(list(bag.records())) == 1


def test_camera_info_is_in_the_namespace_of_the_image_topic(scene: Path) -> None:
    with ImageBag(scene) as bag:
        assert bag.topic.camera_info == "/camera/camera_info"
        assert [record.type for record in bag.records()] == [CAMERA_INFO, IMAGE] * 3


def test_a_topic_for_camera_info_without_messages_is_none(tmp_path: Path) -> None:
    with Writer(tmp_path / "bag", version=9) as bag:
        bag.add_connection("/cam/camera_info", CAMERA_INFO, typestore=STORE)
        bag.write(bag.add_connection("/cam/image", IMAGE, typestore=STORE), 9, b"")
    with ImageBag(tmp_path / "bag") as read:
        assert read.topic.camera_info is None


def test_orientations_that_are_cut_off_are_left_out(tmp_path: Path) -> None:
    time = STORE.types["builtin_interfaces/msg/Time"](sec=0, nanosec=7)
    header = STORE.types["std_msgs/msg/Header"](stamp=time, frame_id="camera")
    quaternion = STORE.types["geometry_msgs/msg/Quaternion"](0.0, 1.0, 0.0, 0.0)
    whole = bytes(STORE.serialize_cdr(STORE.types[ORIENTATION](header, quaternion), ORIENTATION))
    with Writer(tmp_path / "bag", version=9) as bag:
        bag.write(bag.add_connection("/image", IMAGE, typestore=STORE), 1, b"")
        turned = bag.add_connection("/turned", ORIENTATION, typestore=STORE)
        for number, data in enumerate((whole[:-1], whole, b"")):
            bag.write(turned, number, data)
    with ImageBag(tmp_path / "bag") as read:
        assert list(read.orientations()) == [(7, (0.0, 1.0, 0.0, 0.0))]


def test_the_topic_may_be_named_without_its_slash(tmp_path: Path) -> None:
    path = write(tmp_path / "bag", {"/left/image": IMAGE, "/right/image/compressed": COMPRESSED_IMAGE})
    with ImageBag(path, "right/image/compressed") as bag:
        assert bag.topic.compressed


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (None, "has 2 image topics, name one: /left, /right"),
        ("/middle", "/middle is not in the bag; image topics in"),
        ("/chatter", "/chatter is a std_msgs/msg/String; image topics in"),
    ],
)
def test_a_topic_that_cannot_be_replayed_is_refused_with_the_candidates(
    tmp_path: Path, topic: str | None, message: str
) -> None:
    path = write(tmp_path / "bag", {"/left": IMAGE, "/right": IMAGE, "/chatter": "std_msgs/msg/String"})
    with pytest.raises(BagError, match=message) as caught:
        ImageBag(path, topic)
    assert "/left, /right" in str(caught.value)


def test_a_bag_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BagError, match="has no topic with images"):
        ImageBag(write(tmp_path / "bag", {"/chatter": "std_msgs/msg/String"}))


def test_a_file_that_is_not_a_bag_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no bag")
    (tmp_path / "broken.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(100))
    (tmp_path / "broken.db3").write_bytes(bytes(100))
    (tmp_path / "empty").mkdir()
    for name in ("missing", "notes.txt", "broken.mcap", "broken.db3", "empty"):
        with pytest.raises(BagError) as caught:
            ImageBag(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_bag_without_metadata_is_read_by_its_only_file(scene: Path) -> None:
    (scene / "metadata.yaml").unlink()
    with ImageBag(scene) as bag:
        assert len(list(bag.records())) == 6


def test_a_bag_with_damaged_metadata_is_read_by_its_only_file(scene: Path) -> None:
    (scene / "metadata.yaml").write_text("rosbag2_bagfile_information: 3")
    with ImageBag(scene) as bag:
        assert len(list(bag.records())) == 6


def test_of_several_files_without_metadata_one_has_to_be_named(scene: Path) -> None:
    (scene / "metadata.yaml").unlink()
    (scene / "scene_1.mcap").write_bytes((scene / "scene.mcap").read_bytes())
    with pytest.raises(BagError) as caught:
        ImageBag(scene)
    assert str(caught.value) == (
        f"{scene} has no metadata.yaml: write it with `ros2 bag reindex {scene}`, or name one of its files: "
        "scene.mcap, scene_1.mcap"
    )


@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("name", ["scene", "scene/scene.mcap"])
def test_the_remedies_for_a_truncated_file_are_named(scene: Path, metadata: bool, name: str) -> None:
    if not metadata:
        (scene / "metadata.yaml").unlink()
    file = scene / "scene.mcap"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(BagError) as caught:
        ImageBag(scene.parent / name)
    assert f"`mcap recover {file} -o recovered.mcap`" in str(caught.value)
    assert f"`ros2 bag reindex {scene}`" in str(caught.value)


def test_a_header_stamp_is_read_in_either_byte_order() -> None:
    assert header_stamp(b"\0\1\0\0" + (3).to_bytes(4, "little") + (4).to_bytes(4, "little")) == 3_000_000_004
    assert header_stamp(b"\0\0\0\0" + (3).to_bytes(4, "big") + (4).to_bytes(4, "big")) == 3_000_000_004
    assert header_stamp(b"\0\1\0\0") == 0


@pytest.mark.parametrize(
    ("name", "topic", "count"),
    [
        ("gopro_max_raw_sqlite3", "/camera/image_raw", 60),
        ("gopro_max_compressed_mcap", "/camera/image_raw/compressed", 315),
    ],
)
def test_recorded_bags_are_read(
    name: str, topic: str, count: int, recorded_bag: Callable[[str], Path]
) -> None:
    with ImageBag(recorded_bag(name)) as bag:
        assert (bag.topic.name, bag.topic.count) == (topic, count)
        stamps = [record.stamp_ns for record in bag.records()]
    assert len(stamps) == count
    assert stamps[:2] == [1_600_000_000_000_000_000, 1_600_000_000_033_369_999]


def test_a_count_in_the_metadata_that_is_no_number_is_damage(scene: Path) -> None:
    metadata = scene / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("message_count: 3", "message_count: [3]"))
    with pytest.raises(BagError, match="is damaged"):
        ImageBag(scene)
