"""Requirements of a stick that a host lacks, and the commands that provide them."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from edgetpu_driver.cli.doctor.finding import State
from edgetpu_driver.cli.doctor.stick_requirements import (
    GROUP,
    firmware,
    group_membership,
    rule_source,
    udev_rule,
)

VENDOR_RULE = """\
# a comment with 18d1 and 9302
SUBSYSTEM=="usb",ATTRS{idVendor}=="1a6e",ATTRS{idProduct}=="089a",GROUP="plugdev"
"""


def test_the_rule_of_this_package_is_recognised() -> None:
    found = udev_rule([rule_source().parent])
    assert (found.state, found.remedy) == (State.FINE, "")
    assert found.found == f"{rule_source()} gives access to both identities of a stick"


def test_a_udev_rule_must_cover_both_identities(tmp_path: Path) -> None:
    path = tmp_path / "60-half.rules"
    path.write_text(VENDOR_RULE)
    found = udev_rule([tmp_path / "none", tmp_path])
    assert found.state is State.MISSING
    assert found.found == f"no udev rule gives access to the stick; {path} names only 1a6e:089a"
    assert found.remedy == (
        f"sudo cp {rule_source()} /etc/udev/rules.d/ && sudo udevadm control --reload && sudo udevadm trigger"
    )


def user(monkeypatch: pytest.MonkeyPatch, groups: list[int], members: list[str]) -> None:
    """Be the user "ada", in these groups, where GROUP has the number 46 and these members."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    monkeypatch.setattr(os, "getgroups", lambda: groups)
    monkeypatch.setattr(grp, "getgrnam", lambda name: grp.struct_group((name, "x", 46, members)))


def test_a_member_of_the_group_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    user(monkeypatch, groups=[1000, 46], members=["ada"])
    assert group_membership().state is State.FINE


def test_a_new_member_has_to_log_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    user(monkeypatch, groups=[1000], members=["ada"])
    assert group_membership().error_text == (
        "ada was added to the group plugdev, which has not taken effect: log in again, or for this terminal: "
        "newgrp plugdev"
    )


def test_anybody_else_has_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    user(monkeypatch, groups=[1000], members=["bob"])
    assert group_membership().remedy == "sudo usermod -aG plugdev ada, then log in again"


def test_a_user_without_a_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    user(monkeypatch, groups=[1000], members=["ada"])
    monkeypatch.setattr("getpass.getuser", nameless)
    assert group_membership().found == (
        "1000 is not in the group plugdev, which gives access to the stick (needed over ssh)"
    )


def test_the_group_may_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise KeyError(name)

    user(monkeypatch, groups=[1000], members=[])
    monkeypatch.setattr(grp, "getgrnam", unknown)
    assert group_membership().error_text == (
        f"there is no group {GROUP}, which the udev rule gives access to: "
        "sudo groupadd plugdev && sudo usermod -aG plugdev ada, then log in again"
    )


def test_another_file_is_not_the_firmware(tmp_path: Path) -> None:
    path = tmp_path / "firmware.bin"
    path.write_bytes(b"404: Not Found")
    found = firmware(path)
    assert found.state is State.MISSING
    assert found.found.startswith(f"{path} has 14 bytes and the SHA-256 d5558cd4")
    assert "not 3b07311b" in found.found


def test_missing_firmware_is_fetched_with_one_command(tmp_path: Path) -> None:
    path = tmp_path / "edgetpu" / "firmware.bin"
    assert firmware(path).error_text.startswith(
        f"there is no firmware at {path}: mkdir -p {path.parent} && curl -L -o {path} https://"
    )
