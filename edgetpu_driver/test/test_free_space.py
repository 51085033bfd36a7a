"""The warning of too little shared memory for Fast DDS."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest

from edgetpu_driver.node_kit.middleware.fast_dds_memory import free_space
from edgetpu_driver.node_kit.middleware.fast_dds_memory.free_space import (
    DEFAULT_SEGMENT,
    segment_size,
    shortage_of_shared_memory,
)

PROFILE = Path(__file__).resolve().parents[2] / "config" / "fastdds.xml"
ENVIRONMENT = {"FASTRTPS_DEFAULT_PROFILES_FILE": str(PROFILE)}
FAST_DDS = "rmw_fastrtps_cpp"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def free(monkeypatch, tmp_path):
    """A function that sets the free bytes of a directory, which it returns."""

    def set_free(count: int) -> Path:
        usage = Usage(64 << 20, (64 << 20) - count, count)
        monkeypatch.setattr(free_space.shutil, "disk_usage", {tmp_path: usage}.__getitem__)
        return tmp_path

    return set_free


def test_a_segment_without_room_is_told_with_the_cure(free):
    directory = free(13 << 20)
    assert shortage_of_shared_memory(FAST_DDS, ENVIRONMENT, directory) == (
        f"{directory} has 13.0 MB left, and Fast DDS needs 17.0 MB of it for each process: messages of this "
        "process go through UDP, which is slower. Enlarge it (Docker: --ipc=host, or --shm-size=1g)"
    )


def test_a_segment_that_fits_is_not_mentioned(free):
    assert shortage_of_shared_memory(FAST_DDS, ENVIRONMENT, free(17 << 20)) is None


def test_the_small_segment_without_a_profile_fits_where_the_large_one_does_not(free):
    assert shortage_of_shared_memory(FAST_DDS, {}, free(13 << 20)) is None


def test_another_middleware_is_not_judged(free):
    assert shortage_of_shared_memory("rmw_cyclonedds_cpp", ENVIRONMENT, free(0)) is None


def test_a_computer_without_that_directory_is_not_judged(tmp_path):
    assert shortage_of_shared_memory(FAST_DDS, ENVIRONMENT, tmp_path / "shm") is None


def test_the_segment_is_that_of_the_profile():
    assert segment_size(ENVIRONMENT) == 16 << 20


@pytest.mark.parametrize(
    "text", ["", "<profiles/>", "<profiles><segment_size>large</segment_size></profiles>"]
)
def test_a_profile_without_a_readable_size_means_the_default(text, tmp_path):
    path = tmp_path / "profile.xml"
    path.write_text(text)
    assert segment_size({"FASTDDS_DEFAULT_PROFILES_FILE": str(path)}) == DEFAULT_SEGMENT


def test_a_size_in_a_comment_does_not_count(tmp_path):
    path = tmp_path / "profile.xml"
    path.write_text("<a><!-- <segment_size>9\n</segment_size> --><segment_size> 7 </segment_size></a>")
    assert segment_size({"FASTDDS_DEFAULT_PROFILES_FILE": str(path)}) == 7


def test_a_profile_that_is_not_there_means_the_default(tmp_path):
    assert segment_size({"FASTRTPS_DEFAULT_PROFILES_FILE": str(tmp_path / "none.xml")}) == DEFAULT_SEGMENT
