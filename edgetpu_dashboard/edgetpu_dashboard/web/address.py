"""Addresses of IPv4 and IPv6 that the page is served on."""

from __future__ import annotations

import socket


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a TCP socket that is bound to this address; OSError if the port is in use.

    host: an address of IPv4 or IPv6, or localhost.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made


def bracketed(host: str) -> str:
    """Return the host as it is written before a port, for example in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
