"""Who may open the page, with and without a token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edgetpu_dashboard.web.access import Access, is_local


def ask(
    access: Access,
    kind: str = "http",
    query: str = "",
    host: str = "127.0.0.1:8080",
    path: str = "/",
    **headers: str,
) -> list[dict[str, Any]]:
    """What is sent in answer to a request."""
    sent: list[dict[str, Any]] = []
    fields = {"host": host, **headers}
    scope = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "headers": [(key.encode(), value.encode()) for key, value in fields.items()],
    }

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(access(scope, None, send))
    return sent


async def page(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


LOCAL = Access(page, "", local=True)
GUARDED = Access(page, "secret", local=False)


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.0.1.1", "::1"])
def test_loopback_addresses_are_local(address: str) -> None:
    assert is_local(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.0.2", "::", "fe80::1"])
def test_other_addresses_are_not_local(address: str) -> None:
    assert not is_local(address)


@pytest.mark.parametrize("name", ["", "127.0.0.1.evil.example", "robot"])
def test_a_name_is_no_address(name: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        is_local(name)


def test_this_computer_needs_no_token() -> None:
    assert ask(LOCAL)[0]["status"] == 200
    assert ask(LOCAL, host="localhost:8080")[0]["status"] == 200
    assert ask(LOCAL, origin="http://127.0.0.1:8080")[0]["status"] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": ""},
        {"host": "[evil"},
        {"origin": "http://evil.example"},
        {"origin": "http://[evil"},
    ],
)
def test_requests_of_foreign_pages_are_refused(headers: dict[str, str]) -> None:
    assert ask(LOCAL, **headers)[0]["status"] == 403
    assert ask(LOCAL, "websocket", **headers)[0]["code"] == 4403


def test_no_other_page_shows_this_one_in_a_frame() -> None:
    policy = b"content-security-policy", b"frame-ancestors 'none'"
    assert policy in ask(LOCAL)[0]["headers"]
    assert policy in ask(GUARDED, query="token=secret", host="robot:8080")[0]["headers"]


def test_others_need_the_token() -> None:
    assert ask(GUARDED, host="robot:8080")[0]["status"] == 403
    assert ask(GUARDED, query="token=wrong", host="robot:8080")[0]["status"] == 403
    assert ask(GUARDED, "websocket", host="robot:8080")[0]["type"] == "websocket.close"


def cookie_of(access: Access, query: str, host: str) -> str:
    """What a browser that has opened the page with the token sends from then on."""
    return dict(ask(access, query=query, host=host)[0]["headers"])[b"set-cookie"].decode().partition(";")[0]


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address() -> None:
    answer = ask(GUARDED, query="view=a%26&t%6Fken=secret", host="robot:8080")[0]
    headers = dict(answer["headers"])
    assert (answer["status"], headers[b"location"], headers[b"cache-control"]) == (
        303,
        b"./?view=a%26",
        b"no-store",
    )
    assert headers[b"set-cookie"] == b"edgetpu_token_8080=secret; Path=/; HttpOnly; SameSite=Lax"
    answer = ask(GUARDED, query="token=secret", host="robot:8080")[0]
    assert dict(answer["headers"])[b"location"] == b"./"


def test_who_has_given_the_token_is_remembered() -> None:
    cookie = cookie_of(GUARDED, "token=secret", "robot:8080")
    assert ask(GUARDED, host="robot:8080", cookie=cookie)[0]["status"] == 200
    assert ask(GUARDED, "websocket", host="robot:8080", cookie=cookie)[0]["type"] == "http.response.start"


def test_dashboards_on_one_computer_are_remembered_each() -> None:
    other = Access(page, "other", local=False)
    both = (
        f"{cookie_of(GUARDED, 'token=secret', 'robot:8080')}; {cookie_of(other, 'token=other', 'robot:81')}"
    )
    assert ask(GUARDED, host="robot:8080", cookie=both)[0]["status"] == 200
    assert ask(other, host="robot:81", cookie=both)[0]["status"] == 200


def test_requests_of_programs_may_carry_the_token() -> None:
    assert ask(GUARDED, query="token=secret", host="robot:8080", path="/live")[0]["status"] == 200
    opened = ask(GUARDED, "websocket", query="token=secret", host="robot:8080", path="/live")
    assert opened[0]["type"] == "http.response.start"


def test_the_token_is_not_passed_on() -> None:
    queries: list[bytes] = []

    async def note(scope: Any, receive: Any, send: Any) -> None:
        queries.append(scope["query_string"])
        await page(scope, receive, send)

    query = "view=a%26&token=secret&t%6Fken=secret&node=b"
    ask(Access(note, "secret", local=True), query=query, path="/live")
    assert queries == [b"view=a%26&node=b"]


def test_a_query_of_very_many_fields_has_no_token() -> None:
    assert ask(GUARDED, query="token=secret&" + "a=1&" * 100, host="robot:8080")[0]["status"] == 403


def test_a_token_of_any_characters_is_remembered_among_cookies_of_other_pages() -> None:
    access = Access(page, "a;b=\u00fc \U0001f511", local=False)
    cookie = cookie_of(access, "token=a%3Bb%3D%C3%BC%20%F0%9F%94%91", "robot:8080")
    others = f"a/b=1; {cookie}; [c]=;"
    assert ask(access, host="robot:8080", cookie=others)[0]["status"] == 200
    assert ask(access, host="robot:8080", cookie="a/b=1")[0]["status"] == 403
