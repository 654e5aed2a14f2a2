"""The memory of long sessions: a model summarises them in the background.

A summary is kept where the platform keeps its own: SillyTavern's on a message (``extra.memory``), RisuAI's as an entry
of HypaMemory (``hypaV3Data``). Builds use it from there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import Executable, bindparam, delete
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import TavernKitError
from tavernkit.models import ModelError, Reply, ReplyPiece, Request
from tavernkit.server.accounts import Accounts, UpstreamExchange, uses_of
from tavernkit.server.adapters.silly_tavern_lines import opened_again
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client
from tavernkit.server.library.library import RISU_AI
from tavernkit.server.limits import (
    MAX_SUMMARIES,
    MAX_SUMMARY_CHARACTERS,
    MAX_SUMMARY_TOKENS,
    SUMMARY_LEASE_SECONDS,
    SUMMARY_PAUSE_SECONDS,
    SUMMARY_WAIT_SECONDS,
)
from tavernkit.server.metrics import Metrics
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.lines import ChatLine, get_line, has_lines, store_lines
from tavernkit.server.storage.statements import change, table_of, upsert_into
from tavernkit.server.storage.tables import Summary
from tavernkit.server.upstreams.listeners import ClientDisconnectedError, SpeakerChange
from tavernkit.server.upstreams.upstreams import Upstreams

logger = logging.getLogger("tavernkit.server")

HYPA = "hypaV3Data"
CHARACTERS_A_TOKEN = 2
"""A cautious guess: the text and its summary must fit into the context."""
BUSY_PAUSE_SECONDS = 0.25

INSTRUCTION = (
    "You keep the memory of a role-play. Write what has to be remembered of the conversation below, in the language of "
    "the conversation and in at most 200 words: who did what, names, places, promises, what the characters feel for "
    "each other, open questions. If there is a summary so far, bring it up to date. Write nothing but the summary."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The lines to summarise: those after the last summary."""

    lines: Sequence[ChatLine]
    before: str = ""
    """The summary so far, which the new one replaces."""
    known: str | None = None
    """The last message that RisuAI's memory already covers."""


class Summaries:
    """Makes summaries for sessions with memory: one at a time per session, across all processes."""

    def __init__(
        self,
        config: ServerConfig,
        database: Database,
        upstreams: Upstreams,
        accounts: Accounts,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._database = database
        self._upstreams = upstreams
        self._accounts = accounts
        self._metrics = metrics
        self._clock = clock
        self._slots = asyncio.Semaphore(MAX_SUMMARIES)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()

    def consider(
        self, chat: ChatState, lines: Sequence[ChatLine], details: JsonObject, payer: Client | None, upstream: str
    ) -> None:
        """Start a summary if there are enough messages since the last one.

        Args:
            chat: The session.
            lines: Its messages after a turn.
            details: The platform's data after that turn.
            payer: The owner of the budget.
            upstream: The upstream to ask, unless the settings name another.
        """
        if chat.id in self._running or len(self._running) >= MAX_SUMMARIES * 4 or self._stopping.is_set():
            return  # the next turn of the session will try again
        part = next_part(chat.selection.platform, lines, details, self._config.memory_every)
        if part is None:
            return
        task = asyncio.create_task(self._summarise(chat, part, payer, self._config.memory_upstream or upstream))
        self._running[chat.id] = task
        task.add_done_callback(lambda _: self._running.pop(chat.id, None))

    async def wait(self) -> None:
        """Wait for summaries in progress."""
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Stop summaries in progress; the next turn of each session starts them again."""
        self._stopping.set()
        for task in list(self._running.values()):
            task.cancel()
        await self.wait()

    async def _summarise(self, chat: ChatState, part: Part, payer: Client | None, upstream: str) -> None:
        async with self._slots:
            started = time.perf_counter()
            try:
                failures = await self._claim(chat, payer)
                if failures is None:
                    return
            except Exception:
                logger.warning("a summary could not be begun", exc_info=True)
                return
            status = "failed"
            try:
                status = await self._make(chat, part, payer, upstream)
            except (ModelError, TavernKitError, ClientDisconnectedError) as error:
                logger.warning("a summary was not made: %s", type(error).__name__)
            except Exception:
                logger.warning("a summary was not made", exc_info=True)
            finally:
                await self._end(chat.id, failures, ok=status != "failed")
                self._metrics.summary(status, time.perf_counter() - started)

    async def _claim(self, chat: ChatState, payer: Client | None) -> int | None:
        now = self._clock()
        async with self._database.write() as connection:
            try:
                await self._accounts.check(connection, payer)
            except ServiceError:
                return None  # tomorrow
            return await claim(connection, chat.id, now=now, until=now + SUMMARY_LEASE_SECONDS)

    async def _make(self, chat: ChatState, part: Part, payer: Client | None, name: str) -> str:
        upstream = self._upstreams.get(name)
        room = await upstream.context.of(upstream.config.model or "") * CHARACTERS_A_TOKEN
        part, text = _transcript(part, room)
        messages = [{"role": "system", "content": self._config.memory_prompt or INSTRUCTION}]
        request = Request(
            messages=[*messages, {"role": "user", "content": text}],
            options={"max_tokens": MAX_SUMMARY_TOKENS},
            dialect=upstream.model.dialect,
        )
        sent = upstream.with_model(request)
        reply = await upstream.ask(sent, _BackgroundListener(self._stopping))
        self._metrics.used(upstream.name, reply.usage)
        exchanged = UpstreamExchange(upstream=upstream.name, config=upstream.config, request=sent, reply=reply)
        uses = uses_of([exchanged], chat.selection.character or "", None)
        async with self._database.write() as connection:
            await self._accounts.add(connection, payer.owner if payer is not None else chat.owner, uses)
        summary = _text(reply)
        if not summary:
            return "failed"
        return await self._store(chat, part, summary)

    async def _store(self, chat: ChatState, part: Part, summary: str) -> str:
        """Store a summary in its session, between two turns; return the outcome."""
        until = time.monotonic() + SUMMARY_WAIT_SECONDS
        while True:
            async with self._database.write() as connection:
                now = await chats.get_chat(connection, chat.id, lock=True)
                if not now.busy(self._clock()) and now.turn_id is None:
                    if not await has_lines(connection, chat.id, [line.id for line in part.lines]):
                        return "stale"  # the summary no longer matches the chat
                    if now.selection.platform == RISU_AI:
                        if _last_memo(now.details) != part.known:
                            return "stale"  # another process was faster
                        details = with_hypa_entry(now.details, summary, [line.id for line in part.lines])
                        await chats.update_chat(connection, now, details=details)
                        return "done"
                    line = await get_line(connection, chat.id, part.lines[-1].id)
                    changed = with_memory(line, summary)
                    await store_lines(connection, chat.id, [line], [changed])
                    await chats.update_chat(connection, now, details=opened_again(now.details, only_summary=True))
                    return "done"
            if time.monotonic() >= until:
                return "stale"
            await asyncio.sleep(BUSY_PAUSE_SECONDS)

    async def _end(self, chat_id: str, failures: int, *, ok: bool) -> None:
        try:
            async with self._database.write() as connection:
                if ok or self._stopping.is_set():
                    await release(connection, chat_id)
                    return
                pause = min(SUMMARY_PAUSE_SECONDS * 2 ** min(failures, 10), 3600.0)
                await postpone(connection, chat_id, failures=failures + 1, until=self._clock() + pause)
        except Exception:
            logger.warning("the end of a summary could not be stored", exc_info=True)


async def claim(connection: AsyncConnection, session_id: str, *, now: float, until: float) -> int | None:
    """Claim the work on a session's summary; return how often it failed, or None if another process has it."""
    statement = _claiming(on_sqlite=connection.dialect.name == "sqlite")
    row = {"session_id": session_id, "lease_until": until, "failures": 0, "now": now}
    found = (await connection.execute(statement, row)).one_or_none()
    return None if found is None else int(found[0])


async def release(connection: AsyncConnection, session_id: str) -> None:
    """Release the claim after success, or if there is nothing to do."""
    await connection.execute(delete(Summary).where(Summary.session_id == session_id))


async def postpone(connection: AsyncConnection, session_id: str, *, failures: int, until: float) -> None:
    """Postpone the work after a failure."""
    await connection.execute(*change(Summary, {"failures": failures, "lease_until": until}, session_id=session_id))


@cache
def _claiming(*, on_sqlite: bool) -> Executable:
    table = table_of(Summary)
    free = table.c.lease_until <= bindparam("now")
    values: dict[str, Any] = {each.name: bindparam(each.name) for each in table.columns}
    made = upsert_into(Summary, on_sqlite=on_sqlite).values(values)
    return made.on_conflict_do_update(
        index_elements=["session_id"], set_={"lease_until": made.excluded.lease_until}, where=free
    ).returning(table.c.failures)


def next_part(platform: str, lines: Sequence[ChatLine], details: JsonObject, every: int) -> Part | None:
    """Return the part of a chat to summarise now; None if it is too short.

    Args:
        platform: The chat's platform.
        lines: The chat.
        details: The platform's other data.
        every: After how many messages.
    """
    if platform == RISU_AI:
        own = [line for line in lines if "metadata" not in line.native]
        known = _last_memo(details)
        begin = next((at + 1 for at, line in enumerate(own) if line.id == known), 0)
        # Summarised messages leave the prompt, so the newest ones are not summarised.
        fresh = own[begin : max(len(own) - 2 * every, 0)]
        return Part(lines=fresh, known=known) if len(fresh) >= every else None
    before, begin = "", 0
    for at in range(len(lines) - 1, -1, -1):
        if memory := memory_of(lines[at]):
            before, begin = memory, at + 1
            break
    fresh = [line for line in lines[begin:-1] if "mes" in line.native]  # a summary on the last message does not count
    return Part(lines=fresh, before=before) if len(fresh) >= every else None


def memory_of(line: ChatLine) -> str:
    """Return the summary that is stored on a message."""
    extra = line.native.get("extra")
    memory = extra.get("memory") if is_object(extra) else None
    return memory if isinstance(memory, str) else ""


def with_memory(line: ChatLine, summary: str) -> ChatLine:
    """Return the message with a summary, as SillyTavern's Summarize stores it."""
    extra = line.native.get("extra")
    return replace(line, native={**line.native, "extra": {**(extra if is_object(extra) else {}), "memory": summary}})


def with_hypa_entry(details: JsonObject, summary: str, memos: Sequence[str]) -> JsonObject:
    """Return RisuAI's chat with another entry of HypaMemory."""
    stored = details.get(HYPA)
    data = stored if is_object(stored) else {}
    entries = data.get("summaries")
    entry: JsonObject = {"text": summary, "chatMemos": [*memos], "isImportant": False, "tags": []}
    listed: list[Json] = [*(entries if is_list(entries) else ()), entry]
    return {**details, HYPA: {**data, "summaries": listed}}


def _last_memo(details: JsonObject) -> str | None:
    stored = details.get(HYPA)
    entries = stored.get("summaries") if is_object(stored) else None
    for entry in reversed(entries if is_list(entries) else []):
        memos = entry.get("chatMemos") if is_object(entry) else None
        if is_list(memos) and memos:
            return memos[-1] if isinstance(memos[-1], str) else None
    return None


def _transcript(part: Part, room: int) -> tuple[Part, str]:
    """Return the text to summarise, and the included lines: the oldest messages that fit, at least one."""
    so_far = f"Summary so far:\n{part.before}\n\n" if part.before else ""
    texts: list[str] = []
    left = max(room - len(so_far) - MAX_SUMMARY_CHARACTERS, 1000)
    for line in part.lines:
        name = line.native.get("name")
        text = f"{name if isinstance(name, str) and name else line.role}: {line.content}"
        if texts and len(text) > left:
            break
        texts.append(text[:left])
        left -= len(texts[-1])
    return replace(part, lines=part.lines[: len(texts)]), f"{so_far}Conversation:\n" + "\n".join(texts)


def _text(reply: Reply) -> str:
    """Return the text of a reply; empty if it was cut off."""
    return "" if reply.interrupted else reply.text.strip()[:MAX_SUMMARY_CHARACTERS]


class _BackgroundListener:
    """A listener for replies that no client sees; disconnects when the server stops."""

    streaming = False

    def __init__(self, gone: asyncio.Event) -> None:
        self.gone = gone

    async def piece(self, piece: ReplyPiece | SpeakerChange) -> None:
        """Take a piece."""
