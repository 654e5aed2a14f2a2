"""A turn: the user's message is stored, a model is asked, and all results are stored together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

from tavernkit._values import JsonObject, is_object, thaw_object
from tavernkit.cards import DEFAULT_LIMITS
from tavernkit.errors import MaxTokensExceededError, TavernKitError
from tavernkit.models import ModelError, Reply
from tavernkit.server.accounts import Accounts, estimated_usage, passed_use
from tavernkit.server.adapters.registry import Adapters, pending_line
from tavernkit.server.adapters.turn import (
    OPERATIONS,
    OUTSIDE_CHAT,
    BuiltPrompt,
    ChangedByFailure,
    Spoken,
    TurnInput,
    TurnResult,
)
from tavernkit.server.adapters.vectors import Embed, Vectors, vectors_of
from tavernkit.server.adapters.vectors import is_on as vector_storage_is_on
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import RISU_AI, ChatExtras, Library
from tavernkit.server.metrics import Metrics
from tavernkit.server.storage import chats, turns
from tavernkit.server.storage.database import Database
from tavernkit.server.storage.lines import ChatLine, read_history
from tavernkit.server.turns.request import TurnOutcome, TurnRequest, merged_selection
from tavernkit.server.turns.scheduling import Admission, BuildExecutor
from tavernkit.server.turns.summaries import Summaries
from tavernkit.server.turns.turn_log import INTERRUPTED, OpenTurn, TurnLog
from tavernkit.server.turns.upstream_calls import PromptCaches, Route, UpstreamCalls, caching_of
from tavernkit.server.upstreams.listeners import (
    ClientDisconnectedError,
    KeepingListener,
    Listener,
)
from tavernkit.server.upstreams.upstream import Upstream, as_service_error, left_out
from tavernkit.server.upstreams.upstreams import UpstreamKeys, Upstreams

logger = logging.getLogger("tavernkit.server")

TEXT = "text"
"""The dialect of text-completion upstreams."""


class TurnListener(Listener, Protocol):
    """A client that waits for a turn, and learns its id."""

    turn_id: str
    """The id, once the turn is open: a repeated request has that of the first one."""


class Turns:
    """Runs turns. One turn per chat at a time, across all processes."""

    def __init__(
        self,
        config: ServerConfig,
        database: Database,
        library: Library,
        upstreams: Upstreams,
        metrics: Metrics,
        upstream_keys: UpstreamKeys,
        accounts: Accounts,
    ) -> None:
        self.library = library
        self._config = config
        self._database = database
        self._upstreams = upstreams
        self._metrics = metrics
        self._upstream_keys = upstream_keys
        self._build_executor = BuildExecutor()
        self._accounts = accounts
        self.vectors = Vectors(config.data / "vectors")
        self._adapters = Adapters(
            self._build_executor, self.vectors, clean_up=config.clean_up, served=config.from_sillytavern
        )
        self.log = TurnLog(config, database, library, self._adapters, accounts)
        self._admission = Admission(running=config.max_turns, waiting=config.max_waiting, seconds=config.busy_seconds)
        self._caches = PromptCaches()
        self.summaries = Summaries(config, database, upstreams, accounts, metrics)
        self._queues: dict[str, tuple[asyncio.Lock, int]] = {}
        self._running: dict[asyncio.Task[TurnOutcome], asyncio.Event] = {}

    def start(self, request: TurnRequest, listener: TurnListener) -> asyncio.Task[TurnOutcome]:
        """Start a turn; it finishes properly even if the client disconnects."""
        task = asyncio.create_task(self._run_timed(request, listener))
        self._running[task] = listener.gone
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[TurnOutcome]) -> None:
        gone = self._running.pop(task)
        error = task.exception() if not task.cancelled() else None  # else asyncio logs that nobody has seen it
        if error is not None and gone.is_set() and not isinstance(error, ServiceError):
            logger.error("a turn failed whose client has left", exc_info=error)

    async def build(self, request: TurnRequest) -> BuiltPrompt:
        """Build a prompt without asking a model; a stored chat does not change."""
        upstream = self._upstreams.find(request.upstream, request.dialect)
        async with self._database.read() as connection:
            chat, lines, unread = None, list[ChatLine](), 0
            if request.chat_id is not None:
                chat = await chats.get_chat(connection, request.chat_id, owner=request.owner)
                lines, unread = await read_history(connection, chat)
            selection = merged_selection(chat.selection, request) if chat is not None else request.selection
            cast = await self.library.cast(connection, selection)
            options = {**(chat.options if chat is not None else {}), **request.kept}
            stored = chat is not None
            shared = await turns.read_globals(connection, request.owner, selection.platform) if stored else {}
        added = self._adapters.new_lines(request.messages, cast, self._config.user_name)
        opened = OpenTurn(
            turn_id=request.turn_id,
            chat=chat,
            lines=[*lines, *added],
            pending=pending_line(added),
            selection=selection,
            cast=cast,
            global_variables=shared,
            unread=unread,
            options=options,
        )
        if upstream is not None:
            upstream = self._fitting(request, opened, [(upstream, frozenset())])[0][0]
        try:
            given = await self._turn_input(request, opened, upstream, request.dialect)
            built = await self._adapters.of(selection.platform).build(given)
        except TavernKitError as error:
            raise build_error(error) from error
        if upstream is not None:
            built = replace(built, request=upstream.with_model(built.request), fields=upstream.fields)
        return replace(built, warnings=[*opened.warnings, *built.warnings])

    async def stop(self) -> None:
        """Let running turns finish; after the time limit, partial replies are kept."""
        if self._running:
            await asyncio.wait(list(self._running), timeout=self._config.shutdown_seconds)
            for gone in list(self._running.values()):
                gone.set()
            if self._running:
                await asyncio.wait(list(self._running), timeout=5)
        await self.summaries.stop()
        self._build_executor.close()

    async def _run_timed(self, request: TurnRequest, listener: TurnListener) -> TurnOutcome:
        started = time.perf_counter()
        status = "error"
        try:
            async with self._admission.slot(request.owner):
                outcome = await self._run(request, listener)
            status = "replayed" if outcome.replayed else str(outcome.response.get("status"))
            return outcome
        finally:
            self._metrics.turn(request.kind, status, time.perf_counter() - started)

    async def _run(self, request: TurnRequest, listener: TurnListener) -> TurnOutcome:
        await self._upstream_keys.keep_fresh()
        key = request.chat_id or request.session or request.turn_id
        route = self._upstreams.route(request.upstream, request.dialect, f"{request.owner}\0{key}")
        queue = request.chat_id or (f"{request.owner}\0{request.session}" if request.session else None)
        async with self._turn_of(queue):
            opened = await self.log.open(request)
            listener.turn_id = opened.turn_id
            if isinstance(opened, TurnOutcome):
                return opened
            heartbeat = self.log.keep(opened, listener)
            try:
                route = self._fitting(request, opened, route)
                return await self._run_turn(request, opened, route, listener)
            except Exception as error:
                await self.log.give_up(opened, error)
                raise _as_service_error(error) from error
            except asyncio.CancelledError:
                await self.log.give_up(opened, RuntimeError(INTERRUPTED))
                raise
            finally:
                heartbeat.cancel()

    def _fitting(self, request: TurnRequest, opened: OpenTurn, route: Route) -> Route:
        """Return the route of a turn: folders with text completion use a text-completion upstream.

        Without one, messages are sent, with a warning for the client.
        """
        folder = opened.cast.folder
        wanted = folder is not None and folder.completes_text and request.upstream is None and request.dialect is None
        if not wanted or route[0][0].model.dialect == TEXT:
            return route
        if self._upstreams.speaks(TEXT):
            return [(self._upstreams.get(None, TEXT), frozenset())]
        opened.notes.append(
            "the settings of the folder select text completion, and no upstream takes texts: messages are sent"
        )
        return route

    async def _run_turn(self, request: TurnRequest, opened: OpenTurn, route: Route, listener: Listener) -> TurnOutcome:
        given = await self._turn_input(request, opened, route[0][0])
        keeping: KeepingListener | None = None
        if listener.streaming and opened.chat is not None and request.kind not in OUTSIDE_CHAT:
            listener = keeping = KeepingListener(listener, lambda said: self.log.store_text_so_far(opened, said))
        ask = UpstreamCalls(route, listener, opened, self._caches, self._metrics)
        started = time.perf_counter()
        try:
            with self._upstreams.span(opened.cast.name), left_out() as options:
                result = await self._adapters.of(opened.selection.platform).run(given, ask)
        finally:
            if keeping is not None:
                await keeping.close()
        self._metrics.built(time.perf_counter() - started - ask.seconds)
        self._metrics.asked(route[0][0].name, ask.seconds)
        response = _response(request, opened, result, options)
        await self.log.finish(opened, given, result, response)
        if given.memory and opened.chat is not None:
            self.summaries.consider(opened.chat, result.lines, result.details, request.payer, route[0][0].name)
        return TurnOutcome(turn_id=opened.turn_id, response=response, result=result)

    async def _turn_input(
        self, request: TurnRequest, opened: OpenTurn, upstream: Upstream | None, dialect: str | None = None
    ) -> TurnInput:
        chat = opened.chat
        local = chat.variables.get("local") if chat is not None else None
        model = upstream.config.model or "" if upstream is not None else ""
        return TurnInput(
            cast=opened.cast,
            extras=await self._extras(opened),
            chat_id=chat.id if chat is not None else opened.turn_id,
            lines=opened.lines,
            unread=opened.unread,
            kind=request.kind,
            pending=opened.pending,
            prompt=request.prompt,
            quiet=request.quiet,
            empty=request.empty,
            commands=request.commands,
            element=request.element,
            answers=request.answers,
            details=chat.details if chat is not None else {},
            local_variables=local if is_object(local) else {},
            global_variables=opened.global_variables,
            speaker=request.speaker,
            user_name=self._config.user_name,
            options=request.options,
            seed=request.seed,
            model=model,
            context_length=request.context_length,
            memory=opened.options.get("memory") is True,
            quirks="reference" if opened.options.get("quirks") == "reference" else "",
            caching=caching_of(opened.options, upstream.config if upstream is not None else None),
            limits=request.payer.limits if request.payer is not None else DEFAULT_LIMITS,
            model_context=await upstream.context.known(model) if upstream is not None else None,
            dialect=dialect or (upstream.model.dialect if upstream is not None else "openai"),
            embed=self._embedding(request, opened),
            stored=chat is not None,
        )

    def _embedding(self, request: TurnRequest, opened: OpenTurn) -> Embed | None:
        """Return the embedder for Vector Storage, if it is on in the settings of the chat's folder."""
        folder = opened.cast.folder
        if folder is None or not vector_storage_is_on(folder.settings):
            return None
        upstream = self._upstreams.embedding()
        if upstream is None:
            opened.notes.append("Vector Storage is on in the folder, and no upstream has an embedding_model")
            return None
        payer = request.payer.owner if request.payer is not None else request.owner

        async def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
            model = upstream.config.embedding_model or ""
            answer = await upstream.call("POST", "/embeddings", {"model": model, "input": list(texts)})
            async with self._database.write() as connection:
                await self._accounts.add(connection, payer, [passed_use(upstream.name, upstream.config, model, answer)])
            return vectors_of(answer, len(texts))

        return embed

    async def _extras(self, opened: OpenTurn) -> ChatExtras:
        """Return the items that the chat refers to: most refer to none."""
        chat, cast = opened.chat, opened.cast
        details = chat.details if chat is not None else {}
        if cast.selection.platform == RISU_AI or (cast.folder is None and not details.get("world_info")):
            return ChatExtras()
        async with self._database.read() as connection:
            return await self.library.chat_extras(connection, cast, details, (line.native for line in opened.lines))

    @asynccontextmanager
    async def _turn_of(self, key: str | None) -> AsyncGenerator[None]:
        """Queue turns of this process in order; the database locks out other processes."""
        if key is None:
            yield
            return
        lock, waiting = self._queues.get(key, (asyncio.Lock(), 0))
        self._queues[key] = (lock, waiting + 1)
        try:
            if waiting:
                await _within(lock.acquire(), self._config.busy_seconds)
            else:
                await lock.acquire()  # it does not wait, and needs no task for that
            try:
                yield
            finally:
                lock.release()
        finally:
            lock, waiting = self._queues[key]
            if waiting == 1:
                del self._queues[key]
            else:
                self._queues[key] = (lock, waiting - 1)


def build_error(error: TavernKitError) -> ServiceError:
    """Return the error for a prompt that cannot be built."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, MaxTokensExceededError):
        return ServiceError(400, str(error), code="context_length_exceeded", param="messages")
    return ServiceError(400, str(error), code="prompt_not_built")


def _response(request: TurnRequest, opened: OpenTurn, result: TurnResult, left_out: Sequence[str]) -> JsonObject:
    reply = result.reply
    empty = [
        f"the reply of {each.upstream!r} is empty (finish reason: {each.reply.finish_reason})"
        for each in opened.exchanged
        if not (each.reply.text.strip() or each.reply.tool_calls or each.reply.interrupted)
    ]
    return {
        "status": turns.PARTIAL if reply.interrupted else turns.DONE,
        "kind": request.kind,
        "text": reply.text,
        "reasoning": reply.reasoning,
        "refusal": reply.refusal,
        "tool_calls": [call.to_dict() for call in reply.tool_calls],
        "finish_reason": _finish_reason(reply),
        "logprobs": thaw_object(reply.logprobs) if reply.logprobs is not None else None,
        "broken": reply.interrupted or None,
        "usage": reply.usage_object() or estimated_usage(reply, result.plan).to_dict(),
        "speaker": result.speaker,
        "replies": [_spoken(each) for each in result.spoken] if len(result.spoken) > 1 else [],
        "session": opened.chat.external_id if opened.chat is not None else None,
        "session_id": opened.chat.id if opened.chat is not None else None,
        "message_id": result.reply_id if opened.chat is not None else None,
        "created": int(time.time()),
        "warnings": [*opened.warnings, *result.notes, *left_out, *empty],
        **({"alerts": [*result.alerts]} if result.alerts else {}),
        **(_changes(opened.lines, result.lines) if request.kind in OPERATIONS else {}),
    }


def _changes(before: Sequence[ChatLine], after: Sequence[ChatLine]) -> JsonObject:
    """Return the ids of the lines that an operation has added, changed or removed."""
    old, kept = {line.id: line for line in before}, {line.id for line in after}
    changed = [line.id for line in after if old.get(line.id) != line]
    return {"changed": [*changed], "removed": [line.id for line in before if line.id not in kept]}


def _finish_reason(reply: Reply) -> str:
    if reply.finish_reason != "unknown":
        return reply.finish_reason
    return "tool_calls" if reply.tool_calls else "stop"


def _spoken(each: Spoken) -> JsonObject:
    reply = each.reply
    return {"speaker": each.speaker, "text": reply.text, "reasoning": reply.reasoning, "message_id": each.line_id}


def _as_service_error(error: Exception) -> Exception:
    if isinstance(error, ChangedByFailure):
        error = error.error
    if isinstance(error, ClientDisconnectedError):
        return ServiceError(499, "the client left", code="client_disconnected")
    if isinstance(error, ModelError):
        return as_service_error(error)
    return build_error(error) if isinstance(error, TavernKitError) else error


async def _within(work: Awaitable[object], seconds: float) -> None:
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError as error:
        raise ServiceError(
            409, "another turn of this session is running", code="session_busy", retry_after=1
        ) from error
