"""A keystore of SROS 2 for tests: keys, certificates, governance and the permissions of a policy file.

On a robot, `ros2 security` makes the keystore. This module needs the command openssl.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

_CURVE = ("ecparam", "-name", "prime256v1", "-genkey", "-noout")
_DAYS = ("-days", "2", "-sha256")
_VALIDITY = ("2020-01-01T00:00:00", "2040-01-01T00:00:00")


def make_keystore(keystore: Path, policies: Path, domain: int) -> None:
    """Write a keystore with every enclave of a policy file, for one ROS domain."""
    authority = keystore / "private"
    authority.mkdir(parents=True)
    _openssl(*_CURVE, "-out", authority / "ca.key.pem")
    _openssl(
        *("req", "-x509", "-new", "-key", authority / "ca.key.pem", "-subj", "/CN=test_authority"),
        *(*_DAYS, "-out", authority / "ca.cert.pem"),
    )
    _sign(authority, _governance(domain), authority / "governance.p7s")
    for enclave in ET.parse(policies).iterfind("enclaves/enclave"):
        path = enclave.attrib["path"]
        _make_enclave(
            authority, keystore / "enclaves" / path.lstrip("/"), path, _permissions(enclave, domain)
        )


def _make_enclave(authority: Path, folder: Path, path: str, permissions: str) -> None:
    folder.mkdir(parents=True)
    _openssl(*_CURVE, "-out", folder / "key.pem")
    subject = "/CN=" + path.replace("/", "\\/")
    _openssl("req", "-new", "-key", folder / "key.pem", "-subj", subject, "-out", folder / "request.pem")
    _openssl(
        *("x509", "-req", "-in", folder / "request.pem", "-CA", authority / "ca.cert.pem"),
        *("-CAkey", authority / "ca.key.pem", "-CAcreateserial", *_DAYS, "-out", folder / "cert.pem"),
    )
    for name in ("identity_ca.cert.pem", "permissions_ca.cert.pem"):
        shutil.copy(authority / "ca.cert.pem", folder / name)
    shutil.copy(authority / "governance.p7s", folder / "governance.p7s")
    _sign(authority, permissions, folder / "permissions.p7s")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def _sign(authority: Path, text: str, target: Path) -> None:
    plain = target.with_suffix(".xml")
    plain.write_text(text)
    _openssl(
        *("smime", "-sign", "-text", "-in", plain, "-out", target),
        *("-signer", authority / "ca.cert.pem", "-inkey", authority / "ca.key.pem"),
    )


def _governance(domain: int) -> str:
    """Governance: all participants authenticate, all data is encrypted, permissions apply to every topic."""
    dds = ET.Element("dds")
    rule = ET.SubElement(ET.SubElement(dds, "domain_access_rules"), "domain_rule")
    _domains(rule, domain)
    _texts(
        rule,
        allow_unauthenticated_participants="false",
        enable_join_access_control="true",
        discovery_protection_kind="ENCRYPT",
        liveliness_protection_kind="ENCRYPT",
        rtps_protection_kind="SIGN",
    )
    _texts(
        ET.SubElement(ET.SubElement(rule, "topic_access_rules"), "topic_rule"),
        topic_expression="*",
        enable_discovery_protection="true",
        enable_liveliness_protection="true",
        enable_read_access_control="true",
        enable_write_access_control="true",
        metadata_protection_kind="ENCRYPT",
        data_protection_kind="ENCRYPT",
    )
    return ET.tostring(dds, encoding="unicode", xml_declaration=True)


def _permissions(enclave: ET.Element, domain: int) -> str:
    """Permissions for the DDS topics that the profiles of an enclave need; all others are denied."""
    path = enclave.attrib["path"]
    dds = ET.Element("dds")
    grant = ET.SubElement(ET.SubElement(dds, "permissions"), "grant", name=path)
    ET.SubElement(grant, "subject_name").text = f"CN={path}"
    _texts(ET.SubElement(grant, "validity"), not_before=_VALIDITY[0], not_after=_VALIDITY[1])
    rule = ET.SubElement(grant, "allow_rule")
    _domains(rule, domain)
    rights = list(_dds_rights(enclave))
    for right in ("publish", "subscribe"):
        topics = ET.SubElement(ET.SubElement(rule, right), "topics")
        for topic in sorted({topic for granted, topic in rights if granted == right}):
            ET.SubElement(topics, "topic").text = topic
    ET.SubElement(grant, "default").text = "DENY"
    return ET.tostring(dds, encoding="unicode", xml_declaration=True)


def _dds_rights(enclave: ET.Element) -> Iterator[tuple[str, str]]:
    """Yield rights and DDS topics. A service has two topics: its server writes replies, clients requests."""
    for right in ("publish", "subscribe"):
        yield right, "ros_discovery_info"
        yield from ((right, f"rt{name}") for name in _names(enclave, right))
    for right, request, reply in (("reply", "subscribe", "publish"), ("request", "publish", "subscribe")):
        for name in _names(enclave, right):
            yield request, f"rq{name}Request"
            yield reply, f"rr{name}Reply"


def _names(enclave: ET.Element, right: str) -> Iterable[str]:
    return [name.text or "" for name in enclave.iterfind(f"profiles/profile/*[@{right}='ALLOW']/*")]


def _domains(parent: ET.Element, domain: int) -> None:
    _texts(ET.SubElement(parent, "domains"), id=str(domain))


def _texts(parent: ET.Element, **texts: str) -> None:
    for name, text in texts.items():
        ET.SubElement(parent, name).text = text
