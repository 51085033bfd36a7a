"""Access to the page: other computers need a token, foreign pages can neither send requests nor show it."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

COOKIE = "edgetpu_token"
"""Name of the cookie; the port is added, because browsers send the cookies of a host to all its ports."""

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
Header = tuple[bytes, bytes]

_MOST_FIELDS = 100
"""Largest number of fields of a query. Uncritical: the page has about ten."""

_NO_FRAME = b"content-security-policy", b"frame-ancestors 'none'"

_REFUSAL = b"expected the token of the dashboard, as ?token=... in the address; a cookie remembers it\n"
_FOREIGN = b"expected a request of the dashboard's own page\n"


def is_local(address: str) -> bool:
    """Whether an address is a loopback address, of this computer only; ValueError if it is no address."""
    return address == "localhost" or ipaddress.ip_address(address).is_loopback


class Access:
    """An ASGI application that passes requests with the token to another one, which does not see the token.

    A browser sends cookies, and requests to 127.0.0.1, for any page that asks it to. So the host name must be
    one of this server, and the origin of a request, such as a WebSocket's, must be the page itself. No other
    page may show this one in a frame, where a click meant for that page would press a button of this one.

    A browser that opens the page with the token gets a cookie and is redirected to the address without the
    token, so that others neither see the token there nor get it with a copy of the address.
    """

    def __init__(self, app: App, token: str, *, local: bool) -> None:
        """local: whether only this computer can reach the server."""
        self._app = app
        self._token = token
        self._local = local

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        query = scope.get("query_string", b"").decode("latin-1")
        given = _fields(query).get("token", [""])[0]
        scope = {**scope, "query_string": _without_token(query).encode("latin-1")}
        if not self._own(headers):
            await _refuse(scope, send, _FOREIGN)
        elif self._token and not self._knows(given, headers):
            await _refuse(scope, send, _REFUSAL)
        elif self._token and given and (scope["type"], scope["path"]) == ("http", "/"):
            await _redirect(send, scope["query_string"], self._cookie(headers))
        else:
            await self._app(scope, receive, _with_header(send, _NO_FRAME))

    def _own(self, headers: dict[str, str]) -> bool:
        host = headers.get("host", "")
        origin = headers.get("origin", "")
        try:
            leads_here = not self._local or is_local(urlsplit(f"//{host}").hostname or "")
            return leads_here and (not origin or urlsplit(origin).netloc == host)
        except ValueError:  # another name, or no address at all
            return False

    def _knows(self, given: str, headers: dict[str, str]) -> bool:
        # Parsed one by one: SimpleCookie refuses all cookies if one, perhaps of another page, is malformed.
        pairs = [each.strip().partition("=") for each in headers.get("cookie", "").split(";")]
        kept = [unquote(value) for name, _, value in pairs if name == _cookie_name(headers)]
        return any(secrets.compare_digest(text.encode(), self._token.encode()) for text in (given, *kept))

    def _cookie(self, headers: dict[str, str]) -> Header:
        # Not Strict: a browser that follows a link of another page would not send it after the redirection.
        cookie = f"{_cookie_name(headers)}={quote(self._token, safe='')}; Path=/; HttpOnly; SameSite=Lax"
        return b"set-cookie", cookie.encode("latin-1")


def _cookie_name(headers: dict[str, str]) -> str:
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE


def _with_header(send: Any, header: Header) -> Any:
    """A `send` that adds a header to the answer to a request; a WebSocket has no such answer."""

    async def send_with_header(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), header]
        await send(message)

    return send_with_header


def _fields(query: str) -> dict[str, list[str]]:
    """The fields of a query; none if there are too many."""
    try:
        return parse_qs(query, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return {}


def _without_token(query: str) -> str:
    """The query without the token, which the application may write to logs."""
    return "&".join(each for each in query.split("&") if unquote(each.partition("=")[0]) != "token")


async def _redirect(send: Any, query: bytes, cookie: Header) -> None:
    """Send a browser to the page, with the rest of the query."""
    # Relative, as a proxy may have moved the page.
    location = b"./" + (b"?" + query if query else b"")
    headers = [(b"location", location), (b"cache-control", b"no-store"), _NO_FRAME, cookie]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, send: Any, text: bytes) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4403, "reason": text.decode().strip()})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": text})
