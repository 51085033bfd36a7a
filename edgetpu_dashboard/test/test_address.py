"""Addresses that the page is served on."""

from __future__ import annotations

import socket

import pytest

from edgetpu_dashboard.web.address import bound_socket, bracketed


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("::1", "[::1]"), ("::", "[::]")],
)
def test_only_an_address_of_ipv6_is_in_brackets_in_front_of_a_port(host: str, expected: str) -> None:
    assert bracketed(host) == expected


def test_a_socket_has_the_family_of_its_address() -> None:
    with bound_socket("127.0.0.1", 0) as made:
        assert (made.family, made.getsockname()[0]) == (socket.AF_INET, "127.0.0.1")


def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match="in use"):
        bound_socket("127.0.0.1", other.getsockname()[1])
