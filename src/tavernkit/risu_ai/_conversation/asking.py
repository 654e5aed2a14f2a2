"""Asks the host's model, from a send and from triggers and memory inside a build, and passes on its replies."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import dataclasses
from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar, cast

from tavernkit._turns import Exchange, Host, OnPiece, TurnKind
from tavernkit._values import FrozenObject, JsonObject
from tavernkit.models._reply import Reply, ReplyPiece
from tavernkit.models.errors import ModelError
from tavernkit.prompt._block import Block
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._limits import MAX_SCRIPTED_PIECES
from tavernkit.risu_ai._memory import MemoryModels, Summarize, needs_embeddings
from tavernkit.risu_ai._memory.contract import SUMMARY_FAILED
from tavernkit.risu_ai._plan import RisuPlan, helper_plan
from tavernkit.risu_ai._requests.messages import RequestRules
from tavernkit.risu_ai._requests.parameters import HELPER_MODE, MAIN_MODE
from tavernkit.risu_ai._sending.exchange import Answer, Ask, Chunk, NextChunk, StreamOpened
from tavernkit.risu_ai._sending.send import ERROR_PREFIX
from tavernkit.risu_ai._triggers.host import LLMReply, TriggerHost
from tavernkit.risu_ai.errors import MemoryFailedError

T = TypeVar("T")

MEMORY_MODE = "memory"
MAX_THREADS = 64
_threads = concurrent.futures.ThreadPoolExecutor(MAX_THREADS, "tavernkit-risu")
"""The threads of builds. Some builds wait for a model, so they must not use the event loop's own threads."""


class Work(Protocol):
    """Runs a build and waits for it, wherever it runs."""

    async def __call__(self, function: Callable[[], T], /) -> T:
        """Run a function and return its result."""
        ...


class Asker:
    """One operation's access to the model: records requests, and lets work in threads ask too."""

    def __init__(self, host: Host, work: Work | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.broken = False
        """True if the last reply was cut off."""
        self.heard: list[str] = []
        """The pieces of a streamed reply."""
        self.unsent = ""
        """The text before the next piece: the marks of called tools."""
        self.wants_reply = False
        """True if a command requests a reply."""
        self._host = host
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._waiting: concurrent.futures.Future[Reply] | None = None

    async def ask(self, plan: RisuPlan, on_piece: OnPiece | None = None) -> Reply:
        """Ask the host's model."""
        reply = await self._host.ask(plan, on_piece=on_piece)
        self.exchanges.append(Exchange(plan=plan, reply=reply))
        return reply

    def hear(self, piece: ReplyPiece) -> None:
        """Take a piece of the reply."""
        if piece.text:
            self.heard.append(self.unsent + piece.text)
            self.unsent = ""

    def ask_now(self, plan: RisuPlan) -> Reply:
        """Ask from a thread, and wait there."""
        self._waiting = asyncio.run_coroutine_threadsafe(self.ask(plan), self._loop)
        try:
            return self._waiting.result()
        finally:
            self._waiting = None

    async def work(self, function: Callable[[], T]) -> T:
        """Run a build in a thread. Cancelling stops its requests, and waits until it has ended."""
        if self._work is not None:
            return await self._work(function)
        future = self._loop.run_in_executor(_threads, contextvars.copy_context().run, function)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if self._waiting is not None:
                self._waiting.cancel()
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # nothing else reads it
            raise


class Helpers:
    """Requests outside the chat, for one preset and its settings, with the configured retries."""

    def __init__(self, asker: Asker, preset: Preset, settings: Settings) -> None:
        self._asker = asker
        self._preset = preset
        self._settings = settings

    def llm(self, messages: Sequence[JsonObject], model: str) -> LLMReply:
        """Ask a model for a trigger: ``model`` is the chat's own, anything else the auxiliary one."""
        own = model == MAIN_MODE
        try:
            return LLMReply("success", self._ask(messages, MAIN_MODE if own else HELPER_MODE).text)
        except ModelError as error:
            return LLMReply("fail", f"{ERROR_PREFIX}{error}")

    def summarize(self, messages: Sequence[JsonObject]) -> str:
        """Ask the auxiliary model for a summary."""
        try:
            return self._ask(messages, MEMORY_MODE).text
        except ModelError as error:
            raise MemoryFailedError(SUMMARY_FAILED, f"{ERROR_PREFIX}{error}") from error

    def plan(self, messages: Sequence[PromptMessage], purpose: str) -> RisuPlan:
        """Return the plan of a request outside the chat."""
        preset = self._preset
        rules = RequestRules.of(preset, self._settings, preset.ai_model if purpose == MAIN_MODE else preset.sub_model)
        return helper_plan(messages, rules, purpose)

    def _ask(self, messages: Sequence[JsonObject], purpose: str) -> Reply:
        plan = self.plan([PromptMessage.from_json(message) for message in messages], purpose)
        for _ in range(self._settings.request_retries):
            try:
                return self._asker.ask_now(plan)
            except ModelError:
                continue
        return self._asker.ask_now(plan)

    def send_chat(self) -> None:
        """Let the model answer after the command line."""
        self._asker.wants_reply = True


class _AskingTriggerHost:
    """The application's trigger host, with the chat's own model for ``llm`` and ``send_chat``."""

    def __init__(self, inner: TriggerHost, helpers: Helpers) -> None:
        self._inner = inner
        self.llm = helpers.llm
        self.send_chat = helpers.send_chat

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def asking_host(inner: TriggerHost, helpers: Helpers) -> TriggerHost:
    """Return a trigger host that asks the chat's model; the rest is the application's."""
    return cast("TriggerHost", _AskingTriggerHost(inner, helpers))


def memory_models(given: MemoryModels | None, summarize: Summarize, settings: Settings) -> MemoryModels | None:
    """Return the models of memory: the chat's own model summarises unless the application has another one.

    Without an embedder, only memory that needs no embeddings works; in other chats the oldest messages are dropped.
    """
    if given is None:
        if needs_embeddings(settings.raw):
            return None
        given = MemoryModels()
    return given if given.summarize is not None else dataclasses.replace(given, summarize=summarize)


def preview_models(given: MemoryModels | None, settings: Settings) -> MemoryModels | None:
    """Return models of memory for a preview, which asks nobody: memory that is stored is used, none is made."""
    found = memory_models(given, _refuse_summary, settings)
    return None if found is None else dataclasses.replace(found, summarize=_refuse_summary, embed=None)


def _refuse_summary(_messages: Sequence[JsonObject]) -> str:
    raise MemoryFailedError("not_asked", "a preview makes no summaries")


def with_question(plan: RisuPlan, kind: TurnKind, text: str) -> RisuPlan:
    """Return the plan with a text after it."""
    source: FrozenObject = {"stage": "application", "kind": kind, "reason": f"asked for with {kind}"}
    asked = plan.append_block(Block(role="system", content=text, id=kind, metadata={"source": source}))
    assert isinstance(asked, RisuPlan)
    return asked


def advance(steps: Generator[Ask, Answer, object], answer: Answer | None) -> object:
    """Run a send until it needs something, or ends.

    Args:
        steps: The send.
        answer: What it asked for last; None if it has not begun.
    """
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as done:
        return done.value


def receive(steps: Generator[Ask, Answer, object], heard: Sequence[str]) -> None:
    """Pass the pieces of a stream to a send: its scripts see the text so far with each of them.

    All pieces have arrived, so none waits for a script. Scripts may take long, so this is for a thread.

    Args:
        steps: The send, which has asked for a reply.
        heard: The pieces.
    """
    ask = steps.send(StreamOpened())
    scripted = not isinstance(ask, NextChunk) or ask.scripted
    for piece in joined(heard, scripted=scripted or any("{" in piece for piece in heard)):
        steps.send(Chunk(piece))


def joined(heard: Sequence[str], *, scripted: bool) -> list[str]:
    """Join pieces to at most ``MAX_SCRIPTED_PIECES``, and to one if no script runs.

    Args:
        heard: The pieces.
        scripted: True if scripts or macros may see them.
    """
    texts = [piece for piece in heard if piece]
    step = max(-(-len(texts) // MAX_SCRIPTED_PIECES) if scripted else len(texts), 1)
    return ["".join(texts[start : start + step]) for start in range(0, len(texts), step)]
