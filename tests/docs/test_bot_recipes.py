"""The bots of the cookbook work, with stand-ins for the libraries that they use."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "cookbook" / "bot.md").read_text(encoding="utf-8")
(FUNCTION,) = (
    code for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) if ">>>" not in code
)
DISCORD, TELEGRAM = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

Said = list[str]


class DiscordClient:
    """Runs the handler once for a message of Ann's and once for one of its own."""

    said: Said

    def __init__(self, *, intents: object) -> None:
        self.user = object()
        self.handler: Callable[[Any], Awaitable[None]] | None = None

    def event(self, handler: Callable[[Any], Awaitable[None]]) -> None:
        assert handler.__name__ == "on_message"
        self.handler = handler

    def run(self, token: str) -> None:
        assert self.handler is not None
        ann = SimpleNamespace(display_name="Ann")
        for author in (ann, self.user):
            asyncio.run(self._send(self.handler, author))

    async def _send(self, handler: Callable[[Any], Awaitable[None]], author: object) -> None:
        @contextlib.asynccontextmanager
        async def typing() -> AsyncIterator[None]:
            yield

        async def reply(text: str) -> None:
            self.said.append(text)

        channel = SimpleNamespace(id=7, typing=typing)
        await handler(SimpleNamespace(author=author, channel=channel, content="Who lit the lamp?", reply=reply))


class TelegramBot:
    """Is its own builder; runs the handler once."""

    def __init__(self, said: Said) -> None:
        self.said = said
        self.handlers: list[Callable[[Any, Any], Awaitable[None]]] = []
        self.add_handler = self.handlers.append

    def token(self, _token: str) -> TelegramBot:
        return self

    def build(self) -> TelegramBot:
        return self

    def run_polling(self) -> None:
        async def reply_text(text: str) -> None:
            self.said.append(text)

        message = SimpleNamespace(
            chat_id=7, from_user=SimpleNamespace(first_name="Ann"), text="Who lit the lamp?", reply_text=reply_text
        )
        (handler,) = self.handlers
        asyncio.run(_run(handler(SimpleNamespace(message=message), None)))


async def _run(work: Awaitable[None]) -> None:
    await work


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(FUNCTION, "bot.md", "exec"), names)
    return names


def test_the_discord_bot_answers_others_only(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    said = DiscordClient.said = []
    package = ModuleType("discord")
    package.__dict__.update(Client=DiscordClient, Intents=lambda **_intents: object())
    monkeypatch.setitem(sys.modules, "discord", package)
    exec(compile(DISCORD, "bot.md", "exec"), names)
    assert said == ["The keeper, long ago."]


def test_the_telegram_bot_answers(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    said: Said = []
    package = ModuleType("telegram.ext")
    package.__dict__.update(
        Application=SimpleNamespace(builder=lambda: TelegramBot(said)),
        MessageHandler=lambda _filters, handler: handler,
        filters=SimpleNamespace(TEXT=1, COMMAND=2),
    )
    monkeypatch.setitem(sys.modules, "telegram", ModuleType("telegram"))
    monkeypatch.setitem(sys.modules, "telegram.ext", package)
    exec(compile(TELEGRAM, "bot.md", "exec"), names)
    assert said == ["The keeper, long ago."]
