"""Addresses, keys, redaction, server-sent events."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import DecodeError, Endpoint
from tavernkit.models._endpoint import Redactor
from tavernkit.models._limits import MAX_SSE_EVENT_BYTES
from tavernkit.models._streams import ServerEvent, SSEParser


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://localhost:8000/v1"),
        ({"base_url": "https://x.example/api/"}, "https://x.example/api/v1"),
        ({"base_url": "https://x.example/api/v1"}, "https://x.example/api/v1"),
        ({"base_url": "https://x.example", "api_prefix": "openai/v2/"}, "https://x.example/openai/v2"),
        ({"base_url": "https://x.example", "api_prefix": None}, "https://x.example"),
        ({"base_url": "https://x.example", "api_prefix": ""}, "https://x.example"),
    ],
)
def test_addresses_are_put_together(fields: dict[str, Any], url: str) -> None:
    assert Endpoint(**fields).url == url


def test_environment_fills_what_is_not_given() -> None:
    environment = {
        "TAVERNKIT_BASE_URL": "http://e.example",
        "TAVERNKIT_API_KEY": " key ",
        "TAVERNKIT_API_PREFIX": "",
        "TAVERNKIT_TIMEOUT": "2.5",
        "TAVERNKIT_READ_TIMEOUT": "soon",
    }
    found = Endpoint.from_env(environment, connect_timeout=1)
    assert (found.url, found.api_key, found.timeout) == ("http://e.example", "key", 2.5)
    assert found.timeouts() == (1.0, 2.5)
    assert Endpoint.from_env({}, base_url="http://g.example").url == "http://g.example/v1"


def test_streams_have_a_read_timeout_of_their_own() -> None:
    assert Endpoint().timeouts() == (10.0, 600.0)
    assert Endpoint().timeouts(stream=True) == (10.0, 60.0)
    assert Endpoint(read_timeout=5).timeouts(stream=True) == (10.0, 5.0)


@pytest.mark.parametrize("fields", [{"base_url": "ftp://x"}, {"base_url": "x.example"}])
def test_impossible_endpoints_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Endpoint(**fields)


def test_secrets_are_taken_out_wherever_they_stand() -> None:
    endpoint = Endpoint(
        base_url="http://user:pass-word@x.example",
        api_key="sk-123456",
        headers={"X-Api-Token": "tok-abcdef", "Cookie": "id=cookie-value", "X-Title": "tavern"},
    )
    redactor = endpoint.redactor
    told = "sk-123456 tok-abcdef pass-word id=cookie-value tavern"
    assert redactor.text(told) == "[redacted] [redacted] [redacted] [redacted] tavern"
    assert redactor.json({"sk-123456": ["tok-abcdef", 1, None]}) == {"[redacted]": ["[redacted]", 1, None]}
    assert redactor.headers({"set-cookie": "x", "x-id": "sk-123456"}) == {
        "set-cookie": "[redacted]",
        "x-id": "[redacted]",
    }
    assert "sk-123456" not in repr(redactor)


def test_schemes_and_short_values_are_no_secrets() -> None:
    redactor = Redactor.of("abc", headers={"Authorization": "Bearer longer-secret"})
    assert redactor.text("abc Bearer token: longer-secret") == "abc Bearer token: [redacted]"


def events(*portions: bytes) -> list[ServerEvent]:
    parser = SSEParser()
    found = [event for portion in portions for event in parser.feed(portion)]
    return found + parser.finish()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\n\ndata:b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b": comment\nid: 1\nretry: 5\ndata: a\n\n", ["a"]),
        (b"data: a", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"\n\n\n", []),
        (b"event: x\n\n", []),
    ],
)
def test_events_are_read_in_every_framing(data: bytes, expected: list[str]) -> None:
    assert [event.data for event in events(data)] == expected


def test_event_names_are_kept() -> None:
    assert events(b"event: ping\ndata: {}\n\n") == [ServerEvent("{}", "ping")]


def test_endless_event_is_cut_off() -> None:
    parser = SSEParser()
    with pytest.raises(DecodeError):
        parser.feed(b"x" * (MAX_SSE_EVENT_BYTES + 1))


@pytest.mark.parametrize("key", ["…", "sk-\n1", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="api_key") as refused:
        Endpoint(api_key=key)
    assert refused.value.code == "INVALID_API_KEY"
    assert key not in str(refused.value)


@pytest.mark.parametrize("fields", [{"api_key": 123456789}, {"headers": {"X": 123456789}}, {"base_url": 123456789}])
def test_what_may_be_a_secret_is_refused_without_being_shown(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        Endpoint(**fields)
    assert "123456789" not in str(refused.value)
