"""A server that cannot start says why in one line and leaves nothing open."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import uvicorn

from tavernkit.cli.app import run as tavernkit
from tavernkit.errors import ConfigError
from tavernkit.risu_ai import Save
from tavernkit.server import ServerConfig, create_app, serve
from tavernkit.server import run as starting
from tavernkit.server.config import CONFIG_VARIABLE, METRICS_FOLDER
from tavernkit.server.storage.database import Database

Fails = Callable[..., str]


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("tavernkit", "uvicorn.error", "uvicorn.access")]
    before = [(each.handlers[:], each.level, each.propagate, each.disabled) for each in loggers]
    yield
    for logger, (handlers, level, propagate, disabled) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate, logger.disabled = handlers, propagate, disabled
        logger.setLevel(level)


@pytest.fixture
def fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs_as_before: None
) -> Fails:
    """Start a server that cannot start; gives the one line it says."""
    monkeypatch.chdir(tmp_path)

    def begin(*arguments: str) -> str:
        gc.freeze()  # what others have left is not looked through
        with warnings.catch_warnings(record=True) as left_open:
            warnings.simplefilter("always")
            code = tavernkit(["serve", "--port", "0", *arguments])
            gc.collect()
        assert [str(each.message) for each in left_open] == []
        printed = capsys.readouterr()
        assert (code, printed.out) == (2, "")
        assert printed.err.count("\n") == 1
        assert printed.err.startswith("error: ")
        return printed.err.removeprefix("error: ").strip()

    return begin


def test_an_address_that_is_taken(fails: Fails) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = fails("--port", str(port))
    assert said == f"cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize("host", ["999.1.1.1", "no.such.host.invalid", "a" * 70 + ".example", "192.0.2.1"])
def test_an_address_that_is_none_of_this_machine(host: str, fails: Fails) -> None:
    assert fails("--host", host).startswith(f"cannot listen on {host}:0: ")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("no url, pass word", "the database's URL cannot be read"),
        ("postgresql://u:pass word@host:port/db", "the database's URL cannot be read"),
        ("mystery://host/db", "the database cannot be used: "),
        ("sqlite://", "an SQLite database must be a file: sqlite:///path"),
        ("sqlite:///folder", "the database cannot be used: unable to open database file"),
        ("sqlite:///text.db", "the database cannot be used: file is not a database"),
        ("sqlite:///text.db/below.db", "the database folder 'text.db' cannot be created: "),
        ("sqlite:////dev/null/below.db", "the database folder '/dev/null' cannot be created: "),
        ("postgresql://u:pass word@127.0.0.1:1/db", "the database cannot be used: "),
        ("postgresql://u:pass word@127.0.0.1:1/db?no_such=1", "the database cannot be used: "),
    ],
)
def test_a_database_that_cannot_be_used(url: str, told: str, fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.db").write_text("this is not a database, however long one looks at it")
    said = fails("--db", url)
    assert said.startswith(told)
    assert "pass word" not in said


def test_a_database_of_a_version_to_come(fails: Fails, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
    connection.close()
    said = fails("--db", "sqlite:///new.db")
    assert said.startswith("the database was made by a newer version of TavernKit: ")
    assert "'9999'" in said


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("port = ", "server.toml: "),
        ('host = "\\u0000"', "cannot listen on "),
        ("nothing = 1", "the server has no setting 'nothing'"),
        (
            "[upstreams.main]\nbase-url = 1",
            "the server has no setting 'upstreams.main.base-url'; did you mean 'base_url'?",
        ),
        ('telemetry_endpoint = "http://127.0.0.1:1"', "telemetry_endpoint needs telemetry = true"),
        ('telemetry = true\ntelemetry_endpoint = "collector"', "telemetry_endpoint must start with http"),
        ('tls_certificate = "gone.pem"', "the certificate cannot be used: gone.pem: No such file"),
        ('tls_certificate = "server.toml"', "the certificate cannot be used: server.toml: it is not a certificate"),
        ("watch = true", "watch needs a folder"),
        ("write_back = true", "write_back needs a data folder or a save"),
        ("workers = 0", "the setting 'workers' of the server: "),
        ('data = "server.toml"', "the database folder "),
        ('[upstreams.main]\nbase_url = "here"', "the setting 'upstreams.main' of the server: base_url must start "),
        ('[upstreams.main]\napi_key = "ключ"', "the setting 'upstreams.main' of the server: api_key has characters "),
    ],
)
def test_settings_that_cannot_be_used(content: str, told: str, fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(content, encoding="utf-8")
    assert fails("--config", "server.toml").startswith(told)


def test_programs_are_told_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs_as_before: None
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tavernkit(["serve", "--json", "--port", "0", "--db", "sqlite://"]) == 2
    told = json.loads(capsys.readouterr().err)
    assert told == {"kind": "error", "message": "an SQLite database must be a file: sqlite:///path"}


def test_a_server_that_ends_before_it_has_started_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs_as_before: None
) -> None:
    async def prepared(_: ServerConfig) -> None:
        """Find nothing wrong; the file changes afterwards."""

    monkeypatch.setattr(starting, "_prepare", prepared)
    (tmp_path / "tavernkit.db").write_text("this is not a database, however long one looks at it")
    with pytest.raises(ConfigError) as failed:
        serve(ServerConfig(data=tmp_path, port=0), say=lambda _: None)
    assert failed.value.code == "NOT_STARTED"


class Supervisor:
    """One whose workers end as uvicorn's do that cannot start."""

    def __init__(self, _: uvicorn.Config, sockets: list[socket.socket]) -> None:
        self.processes = [SimpleNamespace(exitcode=0), SimpleNamespace(exitcode=3)]
        self._sockets = sockets

    def run(self) -> None:
        """Start them with what they need."""
        assert json.loads(os.environ[CONFIG_VARIABLE])["secret_key"] == "word"
        assert Path(os.environ[METRICS_FOLDER]).is_dir()
        assert self._sockets[0].fileno() != -1


def test_workers_that_cannot_start_leave_neither_socket_nor_settings_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs_as_before: None
) -> None:
    monkeypatch.setattr("uvicorn.supervisors.Multiprocess", Supervisor)
    before = dict(os.environ)
    ports: list[str] = []
    config = ServerConfig.model_validate({"data": tmp_path, "port": 0, "workers": 2, "secret_key": "word"})
    with pytest.raises(ConfigError) as failed:
        serve(config, say=ports.append, as_json=True)
    assert failed.value.code == "NOT_STARTED"
    assert dict(os.environ) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(json.loads(ports[0])["url"]).port or 0))


def test_a_url_may_ask_for_tls_in_the_words_of_postgresql() -> None:
    url = Database("postgresql+asyncpg://user@host/db?sslmode=require&application_name=a").engine.url
    assert dict(url.query) == {"ssl": "require", "application_name": "a"}


def test_a_served_folder_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], logs_as_before: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "other.json").write_text('{"a": 1}', encoding="utf-8")

    def begin_and_end(config: ServerConfig, *_: object, **__: object) -> None:
        async def live() -> None:
            app = create_app(config)
            async with app.router.lifespan_context(app):
                pass

        asyncio.run(live())

    monkeypatch.setattr(starting, "_run", begin_and_end)
    serve(ServerConfig(port=0, data=tmp_path / "data", characters=tmp_path / "cards"), say=lambda line: None)
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("other.json is left out") == 1


def test_a_save_is_imported_before_the_server_starts(tmp_path, monkeypatch) -> None:
    path, said = tmp_path / "backup.bin", list[str]()
    chat = {"id": "one", "name": "First", "message": [{"role": "user", "data": "Hi"}]}
    Save.from_json({"characters": [{"chaId": "mira", "name": "Mira", "chats": [chat]}]}).save(path)
    monkeypatch.setattr(starting, "_run", lambda *_, **__: None)
    config = ServerConfig(data=tmp_path / "data", port=0)
    serve(config, say=said.append, save=path)
    serve(config, say=said.append, save=path)
    first, second = [line for line in said if line.startswith("imported")]
    assert "1 session" in first
    assert "session" not in second
    path.write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="cannot be imported: the save cannot be read"):
        serve(config, say=said.append, save=path)


LOADED = """
import asyncio, json, sys
from tavernkit.server import ServerConfig, create_app

async def main():
    upstream = json.loads(sys.argv[2])
    app = create_app(ServerConfig(data=sys.argv[1], upstreams={"main": upstream}), own_process=True)
    async with app.router.lifespan_context(app):
        await asyncio.get_running_loop().shutdown_default_executor()
        print(json.dumps(["httpx" in sys.modules, "sqlalchemy.dialects.postgresql" in sys.modules]))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("upstream", "asks_servers"), [({"base_url": "http://127.0.0.1:1"}, True), ({"dialect": "scripted"}, False)]
)
def test_a_process_loads_what_it_will_need_and_no_more(
    upstream: dict[str, str], asks_servers: bool, tmp_path: Path
) -> None:
    arguments = [sys.executable, "-c", LOADED, str(tmp_path), json.dumps(upstream)]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ended.stdout) == [asks_servers, False]
