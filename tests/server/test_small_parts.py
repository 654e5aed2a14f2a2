"""The service's small parts by themselves: settings, logs, secrets, answers, leases."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.server import ServerConfig, Service, load_config
from tavernkit.server.api.dependencies import SafeJSONResponse
from tavernkit.server.api.middleware import RequestMiddleware
from tavernkit.server.config import dump_config, parse_upstream
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import parse_item
from tavernkit.server.logs import FIELDS, JsonFormatter, TextFormatter, request_id, session_id, set_up_logs
from tavernkit.server.metrics import Metrics
from tavernkit.server.storage import chats, turns
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.items import all_items
from tavernkit.server.upstreams.upstream import CircuitBreaker
from tavernkit.server.upstreams.upstreams import SecretBox
from tests.server.conftest import Client, StartApp


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ('port = "many"', "INVALID_SETTING"),
        ("port = ", "INVALID_SETTING"),
        ("[upstreams]", "INVALID_SETTING"),
        ('memory_upstream = "other"', "NO_UPSTREAM"),
        ('upstream = "other"\n[upstreams.main]\nbase_url = "http://localhost:1"', "NO_UPSTREAM"),
    ],
)
def test_a_wrong_setting_is_told_with_its_name(content: str, code: str, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_config(file, environment={})
    assert caught.value.code == code


@pytest.mark.parametrize("url", ["mystery://host/db", "no url, pass word", "postgresql+psycopg2://host/db"])
def test_a_database_that_cannot_be_used_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Database(url)
    assert refused.value.code == "INVALID_DATABASE"
    assert "pass word" not in str(refused.value)


def test_settings_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml"):
        load_config(environment={"TAVERNKIT_SERVER_CONFIG": str(tmp_path / "nothing.toml")})


def test_workers_get_the_same_settings(tmp_path: Path) -> None:
    environment = {
        "TAVERNKIT_SERVER_CORS_ORIGINS": "https://a.example, https://b.example,",
        "TAVERNKIT_SERVER_ADMIN_KEY": "root",
        "TAVERNKIT_SERVER_DATA": str(tmp_path),
    }
    name, upstream = parse_upstream("scripted")
    config = load_config(environment=environment, overrides={"upstreams": {name: upstream}})
    assert config.cors_origins == ("https://a.example", "https://b.example")
    handed_over = json.loads(json.dumps(dump_config(config)))
    assert handed_over["admin_key"] == "root"
    assert ServerConfig.model_validate(handed_over) == config


def test_an_upstream_is_named_as_a_model_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("OPENROUTER_API_KEY", "secret")
    name, upstream = parse_upstream("openrouter:deepseek/deepseek-chat")
    config = load_config(environment={}, overrides={"upstream": name, "upstreams": {name: upstream}})
    found = config.upstreams["openrouter"]
    assert (found.dialect, found.base_url, found.api_prefix) == ("openai", "https://openrouter.ai/api", "/v1")
    assert found.model == "deepseek/deepseek-chat"
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "secret"
    with pytest.raises(ConfigError, match="set ANTHROPIC_API_KEY"):
        parse_upstream("anthropic:claude-sonnet-4-5")
    with pytest.raises(ConfigError, match="did you mean 'anthropic:x'"):
        parse_upstream("antropic:x")
    with pytest.raises(ConfigError, match="dialect=https"):
        parse_upstream("cohere:command-r")


def record(error: BaseException | None = None, **fields: object) -> logging.LogRecord:
    info = (type(error), error, None) if error is not None else None
    made = logging.LogRecord("tavernkit.server", logging.WARNING, "file.py", 1, "%s is late", ("Ann",), info)
    setattr(made, FIELDS, fields)
    return made


@pytest.fixture
def ids() -> Iterator[None]:
    tokens = request_id.set("r1"), session_id.set("s1")
    yield
    request_id.reset(tokens[0])
    session_id.reset(tokens[1])


@pytest.mark.usefixtures("ids")
def test_a_log_line_is_json_with_the_ids_of_request_and_session() -> None:
    entry = json.loads(JsonFormatter().format(record(ValueError("no\nway"), status=500)))
    assert entry.pop("time").endswith("+00:00")
    assert "ValueError: no\nway" in entry.pop("error")
    assert entry == {
        "level": "warning",
        "logger": "tavernkit.server",
        "message": "Ann is late",
        "request_id": "r1",
        "session_id": "s1",
        "status": 500,
    }


@pytest.mark.usefixtures("ids")
def test_a_log_line_for_people_says_the_same() -> None:
    assert TextFormatter().format(record(status=500)) == "warning Ann is late request_id=r1 session_id=s1 status=500"
    assert TextFormatter().format(record(ValueError("no"))).endswith("session_id=s1\nValueError: no")


def test_an_id_of_a_client_cannot_write_log_lines_of_its_own() -> None:
    token = session_id.set("a\nerror   all keys are revoked status=500")
    try:
        line = TextFormatter().format(record())
    finally:
        session_id.reset(token)
    assert "\n" not in line
    assert 'session_id="a\\nerror   all keys' in line


def test_a_log_line_outside_of_requests_has_no_ids() -> None:
    assert "request_id" not in json.loads(JsonFormatter().format(record()))


@pytest.fixture
def loggers() -> Iterator[list[logging.Logger]]:
    """The loggers that the service sets up, put back afterwards."""
    found = [logging.getLogger(name) for name in ("tavernkit", "uvicorn.error", "uvicorn.access")]
    before = [(each.handlers, each.level, each.propagate, each.disabled) for each in found]
    yield found
    for logger, (handlers, level, propagate, disabled) in zip(found, before, strict=True):
        logger.handlers, logger.propagate, logger.disabled = handlers, propagate, disabled
        logger.setLevel(level)


def test_logs_go_to_stderr_without_the_requests_of_clients(
    loggers: list[logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logs(ServerConfig(log_format="text", log_level="warning"))
    service, server, access = loggers
    service.info("too detailed")
    server.warning("%s failed", "it")
    access.warning("GET /v1?key=secret")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "warning it failed\n")


def test_a_secret_opens_with_the_key_that_sealed_it() -> None:
    box = SecretBox("one")
    sealed = box.seal("sk-1")
    assert "sk-1" not in sealed
    assert box.open(sealed) == SecretBox("one").open(sealed) == "sk-1"
    assert SecretBox("two").open(sealed) is None
    assert SecretBox(None).open(sealed) is None
    with pytest.raises(ServiceError) as caught:
        SecretBox(None).seal("sk-1")
    assert (caught.value.status, SecretBox(None).usable) == (409, False)


def test_a_broken_upstream_is_tried_by_one_request_at_a_time() -> None:
    now = [0.0]
    breaker = CircuitBreaker(failures=2, seconds=10, clock=lambda: now[0])
    for _ in range(2):
        assert breaker.wait() == 0
        breaker.record(ok=False)
    assert (breaker.is_open, breaker.wait()) == (True, 10)
    now[0] = 10.0
    assert breaker.wait() == 0
    assert breaker.wait() == 1.0
    breaker.release()
    assert breaker.wait() == 0
    breaker.record(ok=True)
    assert (breaker.is_open, breaker.wait(), breaker.wait()) == (False, 0, 0)


@pytest.mark.parametrize("content", [{"text": "half \ud800"}, {"number": float("nan")}])
def test_an_answer_is_json_whatever_is_in_it(content: Any) -> None:
    assert list(json.loads(bytes(SafeJSONResponse(content).body))) == list(content)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("character", b"no card"),
        ("preset", b"{"),
        ("regex", b"[1]"),
        ("group", b"[]"),
        ("persona", b'{"description": "nameless"}'),
        ("persona", b"3"),
    ],
)
def test_a_file_that_is_no_such_item_is_the_clients_mistake(kind: Any, data: bytes) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_item(kind, "silly_tavern", "x", data)
    assert (caught.value.status, caught.value.code) == (422, f"invalid_{kind}")


async def test_a_lease_is_renewed_only_by_the_turn_that_holds_it(client: Client) -> None:
    headers = {"X-Tavern-Session": "s"}
    said = {"model": "aria", "messages": [{"role": "user", "content": "Hi"}]}
    assert (await client.post("/v1/chat/completions", json=said, headers=headers)).status_code == 200
    async with client.service.database.write() as connection:
        later = time.time() + 60
        chat = await chats.find_chat(connection, "local", "s")
        assert chat is not None
        await chats.update_chat(connection, chat, turn_id="the turn")
        held, lost = replace(chat, version=chat.version + 1), chat
        assert not await turns.renew(connection, "another turn", held, later)
        assert not await turns.renew(connection, "another turn", None, later)
        assert not await turns.renew(connection, "the turn", lost, later)
        row = {"owner": "local", "session_id": chat.id, "idempotency_key": None, "fingerprint": "", "kind": "normal"}
        await turns.begin_turn(connection, "the turn", lease_until=0.0, message_id=None, **row)
        assert await turns.renew(connection, "the turn", held, later)


async def test_an_answer_that_has_begun_is_not_answered_again() -> None:
    """Nothing may follow the beginning of an answer but the rest of it."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ServiceError(503, "overloaded", code="overloaded")

    async def send(message: Any) -> None:
        sent.append(message["type"])

    sent: list[str] = []
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    middleware = RequestMiddleware(app, config=ServerConfig(), metrics=Metrics())
    with pytest.raises(ServiceError):
        await middleware(scope, send, send)  # type: ignore[arg-type]  # it does not read
    assert sent == ["http.response.start"]


async def test_the_first_key_is_needed_until_there_is_one(start: StartApp) -> None:
    async with start(require_keys=True) as client:
        assert await client.service.needs_first_key()
        await client.service.keys.create("mine", ("chat",), None)
        assert not await client.service.needs_first_key()
    async with start(require_keys=True, admin_key="root") as client:
        assert not await client.service.needs_first_key()
    async with start() as client:
        assert not await client.service.needs_first_key()


async def test_servers_that_start_at_once_add_the_example_once(settings: dict[str, object]) -> None:
    services = [Service(ServerConfig.model_validate(settings)) for _ in range(4)]
    await services[0].database.migrate()
    try:
        await asyncio.gather(*(service.start() for service in services))
        async with services[0].database.read() as connection:
            assert [each.id for each in await all_items(connection, "character")] == ["aria"]
    finally:
        for service in services:
            await service.stop()


def test_words_that_clients_send_as_methods_are_counted_together() -> None:
    metrics = Metrics()
    for method in ("GET", "BREW", "X" * 100):
        metrics.request_began()
        metrics.request_ended(method, "other", 405, 0.1)
    told = metrics.text().decode()
    assert 'method="other",route="other",status="405"} 2.0' in told
    assert "BREW" not in told
