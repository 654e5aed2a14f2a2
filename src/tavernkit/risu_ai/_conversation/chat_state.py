"""The state of one RisuAI chat, and operations without a model."""

from __future__ import annotations

import copy
import dataclasses
import random
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Self, Unpack

from tavernkit._arguments import require
from tavernkit._turns import Host
from tavernkit._values import FrozenObject, Json, JsonObject, freeze_object, is_mapping, is_sequence, thaw_object
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._builder import Builder
from tavernkit.risu_ai._chat.chat_log import chat_id, greeting_number, with_messages, with_text
from tavernkit.risu_ai._chat.prompt_message import Inlay
from tavernkit.risu_ai._context import RisuAIInputs
from tavernkit.risu_ai._conversation.asking import Work
from tavernkit.risu_ai._conversation.opening import ChatVariables, NoHost, first_variables, opened_chats, with_user
from tavernkit.risu_ai._conversation.rerolls import Rerolls
from tavernkit.risu_ai._conversation.snapshots import AppState, StoredMessages
from tavernkit.risu_ai._files.chat_file import chat_json, chat_variables, write_chat
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, made_id
from tavernkit.risu_ai._sending.exchange import SendError
from tavernkit.risu_ai._services import Services
from tavernkit.risu_ai._triggers.host import RefusingHost
from tavernkit.stores._variables import GLOBAL, LOCAL

Disabled = bool | Literal["allBefore"]
"""True if a message is left out of prompts; ``allBefore`` also leaves out everything before it."""

_BRANCH = re.compile(r" \(Branch(?: [0-9]+)?\)$")

_TURN_INPUTS = frozenset(
    (
        *("character", "history", "settings", "members", "variables", "message", "generation_type", "say_nothing"),
        *("greeting", "speaker", "user", "random", "seed", "memory", "trigger_host", "tool_calls", "inlays"),
    )
)
"""Inputs that the chat itself passes to each build."""


class ChatState:
    """The state of a chat: messages, variables, the character's other chats, settings, earlier replies."""

    def __init__(
        self,
        *,
        host: Host | None = None,
        services: Services | None = None,
        builder: Builder | None = None,
        run_tools: bool = True,
        work: Work | None = None,
        session: tuple[object, ...] | None = None,
        **inputs: Unpack[RisuAIInputs],
    ) -> None:
        """Open a chat.

        Args:
            host: Asks the model, runs tools and saves.
            services: What is compiled and counted, shared with other chats.
            builder: A builder with inputs and services shared with other chats; ``inputs`` override its own.
            run_tools: Run the tools that replies call; otherwise a turn ends with the calls.
            work: Runs builds; by default in separate threads. If triggers or memory ask a model, it must not use the
                event loop's thread, where they would wait forever.
            session: The cache key of regex script results and Lua globals among the services; by default unique to this
                object.
            inputs: Inputs of every build, and the chat so far (``history``).
        """
        require("host", host, Host | None)
        if builder is not None:
            services = builder.services
            inputs = {**builder.inputs, **inputs}
        given = Builder(services=services, **inputs)
        context = given.make_context()
        kept = {name: value for name, value in inputs.items() if name not in _TURN_INPUTS}
        self.host: Host = host if host is not None else NoHost()  # pyright: ignore[reportAttributeAccessIssue]  # it only raises
        self._builder = Builder(services=given.services, **kept)  # pyright: ignore[reportArgumentType]  # what is left of the inputs
        self._session = session if session is not None else ("chat", object())
        self._random = context.random if context.seed is None else None
        self._seed: int | str = context.seed if context.seed is not None else random.SystemRandom().getrandbits(48)
        self._trigger_host = context.trigger_host if context.trigger_host is not None else RefusingHost()
        self._memory = context.memory
        self._preset: Preset | None = context.preset
        self._say_nothing = inputs.get("say_nothing")
        self._quirks = bool(context.quirks)
        self._runs_tools = run_tools
        self._work = work
        self._turns: int = 0

        self.settings: Settings = with_user(context)
        """The settings. Triggers and preset chains change them; the application may too."""
        self.character: RisuCharacter = context.owner
        """The character or group."""
        self.members: tuple[RisuCharacter, ...] = tuple(context.members)
        """The members of the group, or other characters that can be selected."""
        chats, page = opened_chats(context, given_history="history" in inputs)
        self.chats: list[RisuChat] = chats
        """All chats of the character."""
        self.page: int = page
        """Which of them is open."""
        self.variables: ChatVariables = first_variables(context, self.chat, inputs)
        """The variables of the open chat (``local``) and those of all chats (``global``)."""
        self._stored_messages = StoredMessages()
        self.rerolls = Rerolls()
        """The replies that swiping goes through."""
        self.tool_calls: dict[str, Mapping[str, object]] = dict(context.tool_calls)
        """The tool calls that messages refer to, with their results."""
        self.inlays: dict[str, Inlay] = dict(context.inlays)
        """The pictures, audio and videos of messages; ``attach()`` adds one."""
        self.error: SendError | None = None
        """What RisuAI would tell the user about the last turn, if it failed."""
        self.suggestions: tuple[str, ...] = ()
        """Suggestions for the user, if the last turn requested them (``SendSteps``)."""
        self.translations: Mapping[str, str] = {}
        """The last turn's translated replies, by their ids, if requested."""
        self.emotions: tuple[str, ...] = ()
        """The emotion pictures of the last turn: chosen by scripts, or by the model if the screen shows them."""
        self.warnings: tuple[str, ...] = ()
        """What the last operation warned about."""
        self._first = self._app_state()

    # What there is

    @property
    def chat(self) -> RisuChat:
        """The open chat; its variables are in ``variables``."""
        return self.chats[self.page]

    @property
    def lines(self) -> Sequence[JsonObject]:
        """The messages in RisuAI's format, without the greeting."""
        return [thaw_object(message.to_json()) for message in self.chat.messages]

    @property
    def stored(self) -> JsonObject:
        """The open chat as RisuAI stores it, with its variables."""
        return self._stored(self.chat)

    def _stored(self, chat: RisuChat) -> JsonObject:
        local = self.stored_variables
        known = local or self.variables.read or "scriptstate" in chat.raw
        return chat_json(chat, local if known else None)

    def _stored_with(self, messages: list[Json]) -> JsonObject:
        """Return the open chat in RisuAI's format, with already written messages."""
        raw: FrozenObject = {**self.chat.raw, "message": ()} if "message" in self.chat.raw else self.chat.raw
        found = self._stored(dataclasses.replace(self.chat, messages=(), raw=raw))
        found["message"] = messages
        return found

    def file_parts(self) -> list[bytes]:
        """Return the file of the open chat in parts."""
        return write_chat(self._stored_with([]), self._stored_messages.written(self.chat.messages))

    @property
    def stored_variables(self) -> JsonObject:
        """The variables of the open chat."""
        return self.variables.to_dict().get(LOCAL, {})

    @property
    def greeting_index(self) -> int:
        """Which greeting is shown: 0 is the first message, 1 the first alternate."""
        return greeting_number(self.chat) or 0

    # Changes

    def attach(self, attachment: Attachment) -> str:
        """Store a picture, audio or video for messages, and return its id."""
        name = made_id("inlay", attachment.data_url)
        self.inlays[name] = Inlay(attachment)
        return name

    def choose_greeting(self, index: int) -> None:
        """Show another greeting. 0 is the first message, 1 the first alternate; beyond the last one it starts again."""
        count = 1 + len(self.character.alternate_greetings or ())
        self._set_chat(dataclasses.replace(self.chat, greeting_index=index % count - 1))

    def edit(self, index: int, text: str) -> None:
        """Replace the text of a line; its macros run with the next reply.

        Args:
            index: The number of the line; -1 is the last.
            text: Its new text.
        """
        self._change_message(index, lambda message: with_text(message, text))

    def delete(self, index: int) -> None:
        """Delete a line."""
        place = self._place(index)
        self._set_messages((*self.chat.messages[:place], *self.chat.messages[place + 1 :]))

    def delete_from(self, index: int) -> None:
        """Delete a line and all after it."""
        self._set_messages(self.chat.messages[: self._place(index)])

    def disable(self, index: int, value: Disabled = True) -> None:
        """Keep a line out of prompts (True) with all before it (``allBefore``), or not (False).

        Args:
            index: The number of the line; -1 is the last.
            value: True, ``allBefore`` or False.
        """

        def change(message: RisuMessage) -> RisuMessage:
            raw: FrozenObject = MappingProxyType({**message.raw, "disabled": value})
            return dataclasses.replace(message, raw=raw)

        self._change_message(index, change)

    def hide(self, start: int, end: int | None = None) -> None:
        """Keep lines ``start`` to ``end`` (included) out of prompts. A range beyond the chat does nothing."""
        for place in self._places(start, end):
            self.disable(place)

    def unhide(self, start: int, end: int | None = None) -> None:
        """Include hidden lines in prompts again.

        Args:
            start: The first line.
            end: The last line, included; only ``start`` by default.
        """
        for place in self._places(start, end):
            self.disable(place, value=False)

    def change_chat(self, values: Mapping[str, object]) -> None:
        """Replace fields of the open chat, in RisuAI's own names: ``note``, ``localLore`` and so on."""
        self._set_chat(RisuChat.from_json({**self.stored, **values}))
        shared = self.variables.to_dict().get(GLOBAL, {})
        self.variables = ChatVariables({LOCAL: chat_variables(self.chat), GLOBAL: shared})

    # Other chats

    def new_chat(self) -> None:
        """Start another chat, first in the list, and open it."""
        name = f"New Chat {len(self.chats) + 1}"
        made = made_id("chat", self.chat.id, name)
        raw: JsonObject = {"message": [], "note": "", "name": name, "localLore": [], "fmIndex": -1, "id": made}
        greetings = self._group_greetings()
        if self._quirks and greetings:
            last = self.chats[-1]  # RisuAI means the new one
            self.chats[-1] = with_messages(last, (*last.messages, *greetings))
            greetings = ()
        self._begin(with_messages(RisuChat.from_json(raw), greetings))

    def open_chat(self, index: int) -> None:
        """Open another chat of the character.

        Raises:
            ConfigError: There is no such chat.
        """
        if not 0 <= index < len(self.chats):
            raise ConfigError(f"there is no chat {index}: the character has {len(self.chats)}")
        self._leave()
        self._enter(index)

    def branch(self, index: int) -> Self:
        """Return a copy in which a branch that ends with this line is open, first in the list; this chat stays."""
        chat = self.chat
        kept = chat.messages[: self._place(index) + 1]
        twin = self._copy()
        comment = branch_comment(chat.id, chat.name, chat_id(kept[-1]) or "")
        names = {each.name for each in self.chats}
        name = next(name for name in branch_names(chat.name) if name not in names)
        made = made_id("branch", chat.id, name)
        raw = freeze_object({**twin.stored, "name": name, "id": made})
        branch = dataclasses.replace(chat, id=made, raw=raw, messages=(*kept, comment))
        twin._begin(branch)  # noqa: SLF001  # it is one of us
        return twin

    def select(self, character: str) -> None:
        """Select another of the characters (its id), with the chat that is open there.

        Raises:
            ConfigError: There is no such character.
        """
        found = next((each for each in self.members if each.id == character), None)
        if found is None:
            if character == self.character.id:
                return
            raise ConfigError(f"there is no character {character!r} here")
        self._leave()
        before = self._whole_character()
        self.members = tuple(before if each is found else each for each in self.members)
        self.character = found
        self.chats = [found.opened(each) for each in found.stored_chats] or [RisuChat()]
        page = found.raw.get("chatPage")
        self._enter(page if isinstance(page, int) and 0 <= page < len(self.chats) else 0)

    def switch_persona(self, index: int) -> None:
        """Use another persona; the active name and text are stored in the previous one."""
        self.settings = self.settings.switch_persona(index)

    def switch_preset(self, index: int) -> None:
        """Use another preset; the active values are stored in the previous one."""
        self.settings = self.settings.switch_preset(index)

    # Saving

    def snapshot(self) -> JsonObject:
        """Return everything that an operation may change, as JSON, for stores and undo.

        Read-only: snapshots share unchanged messages.
        """
        found: JsonObject = {
            "chat": self._stored_with(self._stored_messages.json(self.chat.messages)),
            "global_variables": {**self.variables.to_dict().get(GLOBAL, {})},
            "rerolls": self.rerolls.to_json(),
            "turns": self._turns,
            **self._first.changes(self._app_state()),
        }
        if self.tool_calls:
            found["tool_calls"] = {name: thaw_object(each) for name, each in self.tool_calls.items()}
        if self._random is None:
            found["seed"] = self._seed
        return found

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Go back to a snapshot. Missing parts are as they were when the chat was opened.

        Raises:
            ConfigError: The snapshot has no chat.
        """
        chat = snapshot.get("chat")
        if not is_mapping(chat):
            raise ConfigError("this is not a snapshot of a RisuAI chat: it has no chat")
        before = self._first.with_changes(snapshot)
        self.character, self.members, self.settings = before.character, before.members, before.settings
        self.chats, self.page, self.inlays = [*before.other_chats], before.page, {**before.inlays}
        self.chats.insert(self.page, RisuChat.from_json(chat))
        shared = snapshot.get("global_variables")
        values: dict[str, dict[str, Json]] = {
            LOCAL: chat_variables(self.chat),
            GLOBAL: thaw_object(shared) if is_mapping(shared) else {},
        }
        self.variables = ChatVariables(values)
        rerolls, turns, seed = snapshot.get("rerolls"), snapshot.get("turns"), snapshot.get("seed")
        self.rerolls = Rerolls.from_json(rerolls) if is_mapping(rerolls) else Rerolls()
        self._turns = turns if isinstance(turns, int) else 0
        self._seed = seed if isinstance(seed, (int, str)) else self._seed
        calls = snapshot.get("tool_calls")
        found = calls.items() if is_mapping(calls) else ()
        self.tool_calls = {name: freeze_object(each) for name, each in found if is_mapping(each)}
        self.error = None
        self._forget_script_results()

    def _app_state(self) -> AppState:
        others = [*self.chats[: self.page], *self.chats[self.page + 1 :]]
        return AppState(self.character, self.members, self.settings, others, self.page, dict(self.inlays))

    # Inside

    def _set_chat(self, chat: RisuChat) -> None:
        self.chats[self.page] = chat

    def _set_messages(self, messages: tuple[RisuMessage, ...]) -> None:
        self._set_chat(with_messages(self.chat, messages))

    def _place(self, index: int) -> int:
        count = len(self.chat.messages)
        if not -count <= index < count:
            raise ConfigError(f"there is no line {index}: the chat has {count}")
        return index % count

    def _places(self, start: int, end: int | None) -> range:
        count = len(self.chat.messages)
        first, last = (each + count if each < 0 else each for each in (start, start if end is None else end))
        return range(first, min(last, count - 1) + 1) if first >= 0 else range(0)

    def _change_message(self, index: int, change: Callable[[RisuMessage], RisuMessage]) -> None:
        place, messages = self._place(index), self.chat.messages
        self._set_messages((*messages[:place], change(messages[place]), *messages[place + 1 :]))

    def _group_greetings(self) -> tuple[RisuMessage, ...]:
        """Return the first messages of a group's members, with which a new chat begins."""
        if not self.character.is_group:
            return ()
        known = {each.id: each for each in self.members}
        listed = self.character.raw.get("characters")
        ids = [each for each in listed if isinstance(each, str)] if is_sequence(listed) else []
        greeting = {each: known[each].first_message for each in ids if each in known}
        return tuple(RisuMessage(role="char", data=text, saying=each) for each, text in greeting.items() if text)

    def _begin(self, chat: RisuChat) -> None:
        """Open a new chat of the list."""
        self._leave()
        self.chats.insert(0, chat)
        self._enter(0)

    def _leave(self) -> None:
        """Store the variables in the chat that is closed."""
        self._set_chat(RisuChat.from_json(self.stored))

    def _enter(self, page: int) -> None:
        self.page = page
        shared = self.variables.to_dict().get(GLOBAL, {})
        self.variables = ChatVariables({LOCAL: chat_variables(self.chat), GLOBAL: shared})
        self._forget_script_results()

    def _forget_script_results(self) -> None:
        self._builder.services.script_runner(self._session).forget()

    def _whole_character(self) -> RisuCharacter:
        chats: list[Json] = [chat_json(each) for each in self.chats]
        raw = freeze_object({**self.character.raw, "chats": chats, "chatPage": self.page})
        return dataclasses.replace(self.character, raw=raw)

    def _copy(self) -> Self:
        twin = copy.copy(self)
        twin.chats = [*self.chats]
        twin._stored_messages = StoredMessages()  # noqa: SLF001  # it is one of us
        twin.variables = ChatVariables(self.variables.to_dict())
        twin.tool_calls = {**self.tool_calls}
        twin.inlays = {**self.inlays}
        twin.rerolls = Rerolls.from_json(self.rerolls.to_json())
        return twin


def branch_comment(chat: str, name: str, line: str) -> RisuMessage:
    """Return the last line of a branch, which names its origin; it is never sent.

    Args:
        chat: The id of the chat.
        name: Its name.
        line: The id of the last line that both have.
    """
    note = f"{{{{specialcomment::branchedfrom::{chat}::{name}::{line}::}}}}"
    return RisuMessage(role="char", data=note, raw={"isComment": True, "disabled": True})


def branch_names(name: str) -> Generator[str]:
    """Yield the names of branches of a chat; the first free one is used."""
    name = _BRANCH.sub("", name)
    yield f"{name} (Branch)"
    number = 2
    while True:
        yield f"{name} (Branch {number})"
        number += 1
