"""What a turn costs, by counting: statements, and what is made again that could have been kept."""

from __future__ import annotations

import cProfile
import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from fastapi import routing
from sqlalchemy import event

from tavernkit.server import ServerConfig, create_app
from tavernkit.silly_tavern import Builder, ChatMessage
from tavernkit.silly_tavern._macros import parser
from tavernkit.silly_tavern._services import Services
from tests.server.conftest import Client, StartApp, on_loopback

CHAT = "/v1/chat/completions"
STATEMENTS = {"SELECT": 3, "INSERT": 4, "UPDATE": 3}
"""Of a turn: the chat, the library and variables are read; the user's line, the turn, the reply and what it took are
stored; the chat is taken and given back, the turn ends."""


MAX_CALLS = 13_000


@contextmanager
def statements(client: Client) -> Generator[list[str]]:
    """The statements that are run meanwhile; drivers tell of them, whoever runs them."""
    found: list[str] = []

    def note(statement: Any) -> None:
        text = statement if isinstance(statement, str) else statement.query
        found.append(text.split(" ", 1)[0])

    def begin(connection: Any, *_: object) -> None:
        driver = connection.driver_connection
        driver.direct.set_trace_callback(note) if database.sqlite else driver.add_query_logger(note)

    def end(connection: Any, _: object) -> None:
        driver = connection.driver_connection
        driver.direct.set_trace_callback(None) if database.sqlite else driver.remove_query_logger(note)

    def note_first(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if not database.sqlite:  # asyncpg does not tell of what SQLAlchemy runs
            note(statement)

    database = client.service.database
    engine = database.engine.sync_engine
    writer = database._writer._opened if database._writer is not None else None
    if writer is not None:
        writer[1].direct.set_trace_callback(note)
    event.listen(engine, "before_cursor_execute", note_first)
    event.listen(engine, "checkout", begin)
    event.listen(engine, "checkin", end)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note_first)
        event.remove(engine, "checkout", begin)
        event.remove(engine, "checkin", end)
        if writer is not None:
            writer[1].direct.set_trace_callback(None)


async def say(client: Client, text: str, session: str = "s") -> None:
    body = {"model": "aria@preset", "messages": [{"role": "user", "content": text}], "user": session}
    reply = await client.post(CHAT, json=body)
    assert reply.status_code == 200, reply.text


async def test_every_turn_of_a_chat_takes_ten_statements(client: Client) -> None:
    for number in range(6):
        with statements(client) as found:
            await say(client, f"Hello for the {number}. time")
        if number:
            assert {name: found.count(name) for name in STATEMENTS} == STATEMENTS, found


async def test_what_was_compiled_is_kept_between_turns(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    parsed: list[str] = []
    make, parse = Services.__init__, parser.parse

    def counted(self: Services, *arguments: object, **more: object) -> None:
        made.append(self)
        make(self, *arguments, **more)  # type: ignore[arg-type]

    def noted(text: str, *arguments: object) -> object:
        parsed.append(text)
        return parse(text, *arguments)

    monkeypatch.setattr(Services, "__init__", counted)
    monkeypatch.setattr("tavernkit.silly_tavern._macros.source.parse", noted)
    async with start() as client:
        await say(client, "Hello {{user}}")
        await say(client, "And again")
        made.clear()
        parsed.clear()
        await say(client, "And a third time, {{user}}!")
    assert made == []
    assert set(parsed) <= {"And a third time, {{user}}!"}


async def test_a_turn_takes_so_many_calls_of_functions(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlike times these are the same on every machine; some 11,700 when this was written, of 19,300 before."""
    # builds are made in this thread
    monkeypatch.setattr("tavernkit.server.turns.scheduling.SHORT_BUILD_SECONDS", 60.0)
    for number in range(12):
        await say(client, f"Hello for the {number}. time")  # the first build of a kind runs in a thread
    profile = cProfile.Profile()
    profile.enable()
    await say(client, "Hello once more")
    profile.disable()
    calls = sum(entry.callcount for entry in profile.getstats())
    assert calls < MAX_CALLS, calls


async def test_a_turn_leaves_no_cycles_of_objects_behind(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searching for them took a tenth of a turn, and memory that is free at once is used again while it is warm."""
    monkeypatch.setattr("tavernkit.server.turns.scheduling.SHORT_BUILD_SECONDS", 60.0)
    for number in range(3):
        await say(client, f"Hello for the {number}. time")
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await say(client, "Hello once more")
        gc.collect()
        found = [type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("tavernkit")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found == []


async def test_many_sessions_keep_what_was_made_of_their_lines(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is made a message once: a process has hundreds of sessions, which take turns."""
    monkeypatch.setattr("tavernkit.server.turns.scheduling.SHORT_BUILD_SECONDS", 60.0)
    read: list[str] = []
    convert = ChatMessage.from_json

    def noted(data: Mapping[str, object]) -> ChatMessage:
        read.append(str(data.get("mes")))
        return convert(data)

    for turn in range(2):
        for session in range(40):
            await say(client, f"Turn {turn} of {session}", f"s{session}")
    monkeypatch.setattr(ChatMessage, "from_json", noted)
    for session in range(40):
        await say(client, f"Turn 2 of {session}", f"s{session}")
    assert not [text for text in read if text.startswith("Turn 0")]


async def test_a_start_does_not_wait_for_engines_that_nobody_uses(client: Client) -> None:
    await say(client, "Hello")
    assert "_risu_ai" not in vars(client.service.turns._adapters)


async def test_a_turn_needs_one_tokenizer(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply is counted as its prompt is: loading another vocabulary takes longer than ten turns."""
    counted: list[str] = []
    monkeypatch.setattr("tavernkit.server.accounts.count_tokens", counted.append)
    body = {"model": "aria@preset", "messages": [{"role": "user", "content": "Hello"}]}
    usage = (await client.post(CHAT, json=body)).json()["usage"]
    assert usage["completion_tokens"] > 0
    assert counted == []


def test_a_start_makes_each_route_once(settings: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI can make the routes of routers again with the first request, which took a tenth of the start."""
    made: list[str] = []
    make = routing._populate_api_route_state

    def noted(route: Any, path: str, *arguments: Any, **more: Any) -> None:
        made.append(path)
        make(route, path, *arguments, **more)

    monkeypatch.setattr(routing, "_populate_api_route_state", noted)
    app = create_app(ServerConfig.model_validate(settings))
    with on_loopback(app) as address:
        assert httpx.get(f"{address}/ready").status_code == 200
        assert httpx.get(f"{address}/v1/models").status_code == 200
    assert made == ["/health", "/ready", "/metrics"]


def test_a_changed_builder_shares_what_is_compiled() -> None:
    builder = Builder()
    assert builder.replace(context_length=1000).services is builder.services
