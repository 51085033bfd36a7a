"""Findings on the host's requirements for a stick: the udev rule, group membership and the firmware."""

from __future__ import annotations

import getpass
import grp
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from edgetpu_driver.cli.doctor.finding import Finding, State, fine, missing
from edgetpu_driver.files.default_paths import firmware_path
from edgetpu_driver.files.file_access import read_file

RULE_FILE = "60-edgetpu.rules"
GROUP = "plugdev"
"""Group to which RULE_FILE gives access."""

RULE_DIRECTORIES = tuple(
    Path(directory, "udev/rules.d") for directory in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
"""Directories of udev rules."""

APPLY_RULES = "sudo udevadm control --reload && sudo udevadm trigger"
"""Makes udev read its rules again and apply them to devices that are plugged in."""

_IDENTITIES = (("1a6e", "089a"), ("18d1", "9302"))  # vendor and product, in boot mode and running
_FIRMWARE_URL = "https://github.com/google-coral/libedgetpu/raw/master/driver/usb/apex_latest_single_ep.bin"


def stick_requirements() -> tuple[Finding, ...]:
    """The udev rule, the group and the firmware on this host."""
    return udev_rule(RULE_DIRECTORIES), group_membership(), firmware(firmware_path())


def missing_requirements() -> list[str]:
    """List what this host lacks for a stick, one line each with the commands to fix it."""
    return [each.error_text for each in stick_requirements() if each.state is State.MISSING]


def udev_rule(directories: Sequence[Path]) -> Finding:
    """Whether rules in one of these directories name both identities of a stick."""
    partial: list[str] = []
    for directory in directories:
        for path in sorted(directory.glob("*.rules")):
            named = _identities_named(path)
            if len(named) == len(_IDENTITIES):
                return fine("udev rule", f"{path} gives access to both identities of a stick")
            partial += [f"{path} names only {':'.join(each)}" for each in named]
    return missing(
        "udev rule",
        "; ".join(["no udev rule gives access to the stick", *partial]),
        f"sudo cp {rule_source()} /etc/udev/rules.d/ && {APPLY_RULES}",
    )


def group_membership() -> Finding:
    """Whether this process is in the group of the udev rule, or runs as root."""
    user = _user() if os.geteuid() else "root"
    if user == "root":
        return fine("group", "root needs no group")
    try:
        group = grp.getgrnam(GROUP)
    except KeyError:
        return missing(
            "group",
            f"there is no group {GROUP}, which the udev rule gives access to",
            f"sudo groupadd {GROUP} && sudo usermod -aG {GROUP} {user}, then log in again",
        )
    if group.gr_gid in os.getgroups():
        return fine("group", f"{user} is in the group {GROUP}")
    if user in group.gr_mem:
        return missing(
            "group",
            f"{user} was added to the group {GROUP}, which has not taken effect",
            f"log in again, or for this terminal: newgrp {GROUP}",
        )
    return missing(
        "group",
        f"{user} is not in the group {GROUP}, which gives access to the stick (needed over ssh)",
        f"sudo usermod -aG {GROUP} {user}, then log in again",
    )


def firmware(path: Path) -> Finding:
    """Whether a file is the image that this driver loads."""
    from edgetpu_driver.usb.firmware_loading import SINGLE_ENDPOINT_SHA256

    command = f"mkdir -p {path.parent} && curl -L -o {path} {_FIRMWARE_URL}"
    try:
        data = read_file(path)
    except OSError:
        return missing("firmware", f"there is no firmware at {path}", command)
    digest = hashlib.sha256(data).hexdigest()
    if digest != SINGLE_ENDPOINT_SHA256:
        return missing(
            "firmware",
            f"{path} has {len(data)} bytes and the SHA-256 {digest}, not {SINGLE_ENDPOINT_SHA256}",
            command,
        )
    return fine("firmware", f"{path}, {len(data)} bytes, SHA-256 {digest[:16]}.. as expected")


def rule_source() -> Path:
    """The udev rule of this package, in the install tree or the source tree."""
    prefixes = [
        Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix
    ]
    installed = [prefix / "share" / "edgetpu_driver" / "udev" / RULE_FILE for prefix in prefixes]
    source = Path(__file__).resolve().parents[3] / "udev" / RULE_FILE
    return next((path for path in (*installed, source) if path.is_file()), Path(RULE_FILE))


def _user() -> str:
    """The name of the user, or the user's number if it has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.geteuid())


def _identities_named(path: Path) -> list[tuple[str, str]]:
    """The identities that have a rule in a file."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    rules = [line for line in lines if not line.lstrip().startswith("#")]
    return [
        (vendor, product)
        for vendor, product in _IDENTITIES
        if any(re.search(vendor, rule, re.I) and re.search(product, rule, re.I) for rule in rules)
    ]
