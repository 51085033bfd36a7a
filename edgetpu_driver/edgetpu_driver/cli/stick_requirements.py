"""What a host needs before a stick can be used: the udev rule, membership of its group, the firmware."""

from __future__ import annotations

import getpass
import grp
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from edgetpu_driver.files.default_paths import firmware_path

RULE_FILE = "60-edgetpu.rules"
GROUP = "plugdev"
"""Group to which RULE_FILE gives access."""

RULE_DIRECTORIES = tuple(
    Path(directory, "udev/rules.d") for directory in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
"""Where udev reads rules from."""

_IDENTITIES = (("1a6e", "089a"), ("18d1", "9302"))  # vendor and product, in boot mode and running
_FIRMWARE_URL = "https://github.com/google-coral/libedgetpu/raw/master/driver/usb/apex_latest_single_ep.bin"


def missing_requirements() -> list[str]:
    """Describe what this host lacks for a stick, one line each with the commands that provide it."""
    found = (missing_rule(RULE_DIRECTORIES), missing_group(), missing_firmware(firmware_path()))
    return [line for line in found if line]


def missing_rule(directories: Sequence[Path]) -> str:
    """Say how to install the udev rule; empty if a rule in these directories names both identities."""
    for directory in directories:
        for path in sorted(directory.glob("*.rules")):
            if _names_the_stick(path):
                return ""
    return (
        "no udev rule gives access to the stick: "
        f"sudo cp {rule_source()} /etc/udev/rules.d/ && sudo udevadm control --reload && sudo udevadm trigger"
    )


def missing_group() -> str:
    """Say how to join the group of the udev rule; empty if this process is in it, or runs as root."""
    user = getpass.getuser() if os.geteuid() else "root"
    try:
        group = grp.getgrnam(GROUP)
    except KeyError:
        command = f"sudo groupadd {GROUP} && sudo usermod -aG {GROUP} {user}"
        return f"there is no group {GROUP}, which the udev rule gives access to: {command}"
    if user == "root" or group.gr_gid in os.getgroups():
        return ""
    if user in group.gr_mem:
        return f"{user} was added to the group {GROUP}: log in again for it to take effect"
    return (
        f"{user} is not in the group {GROUP}, which gives access to the stick (needed over ssh): "
        f"sudo usermod -aG {GROUP} {user}, then log in again"
    )


def missing_firmware(path: Path) -> str:
    """Say how to get the firmware; empty if `path` holds the image that this driver loads."""
    from edgetpu_driver.usb.firmware import SINGLE_ENDPOINT_SHA256

    command = f"mkdir -p {path.parent} && curl -L -o {path} {_FIRMWARE_URL}"
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return f"there is no firmware at {path}: {command}"
    if digest != SINGLE_ENDPOINT_SHA256:
        return f"{path} is not the firmware with the SHA-256 {SINGLE_ENDPOINT_SHA256}: {command}"
    return ""


def rule_source() -> Path:
    """The udev rule that this package brings, in the install tree or the source tree."""
    prefixes = [
        Path(prefix) for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix
    ]
    installed = [prefix / "share" / "edgetpu_driver" / "udev" / RULE_FILE for prefix in prefixes]
    source = Path(__file__).resolve().parents[2] / "udev" / RULE_FILE
    return next((path for path in (*installed, source) if path.is_file()), Path(RULE_FILE))


def _names_the_stick(path: Path) -> bool:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return False
    rules = [line for line in lines if not line.lstrip().startswith("#")]
    return all(
        any(re.search(vendor, rule, re.I) and re.search(product, rule, re.I) for rule in rules)
        for vendor, product in _IDENTITIES
    )
