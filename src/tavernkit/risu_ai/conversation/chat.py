"""One RisuAI chat: its state, and everything a user can do to it."""

from __future__ import annotations

import copy
import dataclasses
import random
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeVar, Unpack

from tavernkit.errors import ConfigError
from tavernkit.models.errors import HTTPError, ModelError
from tavernkit.models.reply import ReplyPiece
from tavernkit.prompt.block import Block
from tavernkit.risu_ai.builder import Builder
from tavernkit.risu_ai.chat.chat_log import chat_id, with_messages, with_text
from tavernkit.risu_ai.chat.groups import group_members
from tavernkit.risu_ai.chat.ids import made_id
from tavernkit.risu_ai.context import RisuAIContext
from tavernkit.risu_ai.conversation.asking import Asker, Helpers, asking_host, memory_models
from tavernkit.risu_ai.conversation.rerolls import Rerolls, taken_back
from tavernkit.risu_ai.conversation.snapshots import settings_changes, with_settings_changes
from tavernkit.risu_ai.files.chat_file import chat_json, chat_variables
from tavernkit.risu_ai.files.preset import Preset
from tavernkit.risu_ai.files.settings import Settings
from tavernkit.risu_ai.inputs import RisuAIInputs
from tavernkit.risu_ai.objects import RisuCharacter, RisuChat, RisuMessage
from tavernkit.risu_ai.plan import RisuPlan
from tavernkit.risu_ai.sending.exchange import (
    Answer,
    Ask,
    Chunk,
    Failure,
    ModelRequest,
    Reply,
    RequestFailedError,
    RequestStoppedError,
    Stopped,
    StreamOpened,
)
from tavernkit.risu_ai.sending.operation import Operation
from tavernkit.risu_ai.sending.result import SendError, SendResult
from tavernkit.risu_ai.sending.send import Send
from tavernkit.risu_ai.services import Services
from tavernkit.risu_ai.triggers.host import RefusingHost
from tavernkit.stores.variables import GLOBAL, LOCAL, InMemoryVariablesStore
from tavernkit.turns import Host, Turn, TurnKind
from tavernkit.values import FrozenObject, Json, JsonObject, freeze_object, is_mapping, is_sequence, thaw, thaw_object

Disabled = bool | Literal["allBefore"]
"""Whether a message is left out of prompts; ``allBefore`` leaves out all that comes before it as well."""

IMPERSONATION = "[Write the next message of {user}, in their own voice. Write nothing for {char}.]"
"""RisuAI has no prompt of its own for this: it is added behind everything else."""

_BRANCH = re.compile(r" \(Branch(?: [0-9]+)?\)$")
_T = TypeVar("_T")

_TURN_INPUTS = frozenset(
    (
        *("character", "history", "settings", "members", "variables", "message", "generation_type", "say_nothing"),
        *("speaker", "user", "random", "seed", "memory", "trigger_host"),
    )
)
"""Inputs that the chat gives each build itself."""


class _NoHost:
    """Stands in until the application gives a host."""

    async def ask(self, *_: object, **__: object) -> object:
        raise ConfigError("this chat has no host to ask a model with: pass host=... or use tavernkit.Conversation")

    checkpoint = call_tool = ask


class ChatVariables(InMemoryVariablesStore):
    """The variables of a chat. As in RisuAI, reading one is enough for the chat to have a place for them."""

    read = False

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Return a value, or nothing when there is none."""
        self.read = self.read or scope == LOCAL
        return super().get(name, scope)


class Chat:
    """One chat with its state: messages, variables, note, lore, memory, and the replies one can go back to.

    Takes every input of :class:`RisuAIInputs`: ``Chat(character=card, user=user, preset=preset, host=host)`` begins a
    chat with a card, ``history`` goes on with one; :meth:`Save.open` makes one out of a save. Operations are those of
    :class:`tavernkit.turns.Chat` with the effects they have in RisuAI, and some that only RisuAI has.

    As in RisuAI, nothing that a turn did is taken back by rerolling: variables, notes and summaries stay. Results of
    regex scripts and the globals of Lua scripts are remembered as long as the object lives; they are not saved.
    """

    def __init__(
        self, *, host: Host | None = None, services: Services | None = None, **inputs: Unpack[RisuAIInputs]
    ) -> None:
        given = Builder(services=services, **inputs)
        context = given.make_context()
        kept = {name: value for name, value in inputs.items() if name not in _TURN_INPUTS}
        self.host: Host = host if host is not None else _NoHost()  # pyright: ignore[reportAttributeAccessIssue]  # it only raises
        self._builder = Builder(services=given.services, **kept)  # pyright: ignore[reportArgumentType]  # what is left of the inputs
        self._session: tuple[object, ...] = ("chat", object())
        self._random = context.random if context.seed is None else None
        self._seed: int | str = context.seed if context.seed is not None else random.SystemRandom().getrandbits(48)
        self._trigger_host = context.trigger_host if context.trigger_host is not None else RefusingHost()
        self._memory = context.memory
        self._preset: Preset | None = context.preset
        self._say_nothing = inputs.get("say_nothing")
        self._quirks = bool(context.quirks)
        self._turns = 0

        self.settings: Settings = _with_user(context)
        """The settings. Triggers and a preset chain change them; so may the application."""
        self.character: RisuCharacter = context.owner
        """The character or group."""
        self.members: tuple[RisuCharacter, ...] = tuple(context.members)
        """The members of the group, or other characters that can be selected."""
        chats, page = _opened(context, given_history="history" in inputs)
        self.chats: list[RisuChat] = chats
        """All chats of the character."""
        self.page: int = page
        """Which of them is open."""
        self.variables: ChatVariables = _variables(context, self.chat, inputs)
        """The variables of the open chat (``local``) and those of all chats (``global``)."""
        self.rerolls = Rerolls()
        """The replies that swiping goes through."""
        self.error: SendError | None = None
        """What RisuAI would tell the user about the last turn, if it failed."""
        self.warnings: tuple[str, ...] = ()
        """What the last operation warned about."""
        others = [*self.chats[: self.page], *self.chats[self.page + 1 :]]
        self._first = (self.character, self.members, self.settings, others, self.page)

    # What there is

    @property
    def chat(self) -> RisuChat:
        """The open chat; its variables are in :attr:`variables`."""
        return self.chats[self.page]

    @property
    def lines(self) -> Sequence[JsonObject]:
        """The messages as RisuAI stores them. The greeting is not one of them."""
        return [thaw_object(message.to_json()) for message in self.chat.messages]

    @property
    def stored(self) -> JsonObject:
        """The open chat as RisuAI stores it, with its variables."""
        local = self.stored_variables
        known = local or self.variables.read or "scriptstate" in self.chat.raw
        return chat_json(self.chat, local if known else None)

    @property
    def stored_variables(self) -> JsonObject:
        """The variables of the open chat."""
        return self.variables.to_dict().get(LOCAL, {})

    @property
    def greeting_index(self) -> int:
        """Which greeting is shown: 0 is the first message, 1 the first alternate."""
        return int(self.chat.greeting_index or 0) + 1 if self.chat.greeting_index is not None else 0

    # Turns

    async def send(self, text: str = "", *, files: Sequence[str] = ()) -> Turn:
        """Store the user's message and ask for a reply; in a group, for one of each speaker whose turn it is.

        Args:
            text: The message. One that begins with ``/`` is a command line; it is sent if a command is not known.
            files: Ids of pictures (among ``inlays``) that are attached.
        """
        self.rerolls.meet(self.character.id)
        if text.startswith("/"):
            asker = Asker(self.host)
            if await self._operate(lambda operation: operation.command(text), asker):
                return await self._generate("send") if asker.wants_reply else Turn(kind="send")
            if asker.wants_reply and self._quirks:
                return await self._lose_reply(text)
        return await self._typed("send", text, files)

    async def continue_reply(self, text: str = "") -> Turn:
        """Let the model go on with the last message. What the user typed is put before what the model adds."""
        messages = self.chat.messages
        if len(messages) < 2 or messages[-1].role != "char":
            return Turn(kind="continue")
        self.rerolls.meet(self.character.id)
        return await self._typed("continue", text)

    async def generate(self) -> Turn:
        """Let the model answer the chat as it is, as RisuAI's auto mode does each time."""
        self.rerolls.meet(self.character.id)
        return await self._generate("send")

    async def regenerate(self) -> Turn:
        """Ask for the last reply (in a group: the last round) again."""
        self.rerolls.meet(self.character.id)
        return await self._rerolled("regenerate")

    async def swipe(self, direction: Literal["left", "right"] = "right") -> Turn:
        """Show the reply beside the last one; right of the newest asks for another."""
        self.rerolls.meet(self.character.id)
        moved = self.rerolls.move(self.chat.messages, direction)
        if moved is not None:
            self._set_messages(moved)
            return Turn(kind="swipe", text=self._last_reply())
        return await self._rerolled("swipe") if direction == "right" else Turn(kind="swipe")

    async def speak(self, member: str) -> Turn:
        """Let this member of the group (name or id) speak next, even if muted.

        Raises:
            ConfigError: The group has no such member.
        """
        members = group_members(self.character, self.members)
        found = next((each.id for each in members if member in (each.id, each.name)), None)
        if found is None:
            names = ", ".join(each.name for each in members) or "(there are none)"
            raise ConfigError(f"the group has no member {member!r}: choose one of {names}")
        return await self._generate("speak", speaker=found)

    async def impersonate(self) -> Turn:
        """Let the model write the user's next message. It is returned, not stored."""
        text = IMPERSONATION.format(user=self.settings.username, char=self.character.name)
        return await self._beside("impersonate", text)

    async def quiet(self, prompt: str) -> Turn:
        """Ask something beside the chat. The answer is returned, not stored."""
        return await self._beside("quiet", prompt)

    def preview(self, text: str = "") -> RisuPlan:
        """Return the prompt that :meth:`send` would send. Nothing changes, so memory makes no summaries."""
        dice = random.Random(f"{self._seed} {self._turns}").random  # those of the application would be used up
        context = self._context(None, message=text, say_nothing=self._says_nothing(), random=dice)
        return self._builder.run(context)

    # Triggers

    async def run_trigger(self, name: str, *, trigger_id: str | None = None) -> None:
        """Run the manual triggers of a name, as a click on an element that names them does; groups have none."""
        await self._operate(lambda operation: operation.run_trigger(name, trigger_id))

    async def click(self, name: str) -> None:
        """Call the Lua handlers of a button."""
        await self._operate(lambda operation: operation.click(name))

    def display(self, index: int) -> str:
        """Return what RisuAI's screen would show of a line, or of the greeting (-1), before Markdown."""
        return self._operation(None).display(index)

    # Changes

    def choose_greeting(self, index: int) -> None:
        """Show another greeting. 0 is the first message, 1 the first alternate; beyond the last one it starts anew."""
        count = 1 + len(self.character.alternate_greetings or ())
        self._set_chat(dataclasses.replace(self.chat, greeting_index=index % count - 1))

    def edit(self, index: int, text: str) -> None:
        """Replace the text of a line, as it is; its macros run with the next reply."""
        self._change_message(index, lambda message: with_text(message, text))

    def delete(self, index: int) -> None:
        """Delete a line."""
        place = self._place(index)
        if place is not None:
            self._set_messages((*self.chat.messages[:place], *self.chat.messages[place + 1 :]))

    def delete_from(self, index: int) -> None:
        """Delete a line and all after it."""
        place = self._place(index)
        if place is not None:
            self._set_messages(self.chat.messages[:place])

    def disable(self, index: int, value: Disabled = True) -> None:
        """Keep a line out of prompts (True) with all before it (``allBefore``), or not (False)."""

        def change(message: RisuMessage) -> RisuMessage:
            raw: FrozenObject = MappingProxyType({**message.raw, "disabled": value})
            return dataclasses.replace(message, raw=raw)

        self._change_message(index, change)

    def hide(self, start: int, end: int | None = None) -> None:
        """Keep lines ``start`` to ``end`` (included) out of prompts."""
        for place in self._places(start, end):
            self.disable(place)

    def unhide(self, start: int, end: int | None = None) -> None:
        """Let hidden lines be part of prompts again."""
        for place in self._places(start, end):
            self.disable(place, value=False)

    def change_chat(self, values: Mapping[str, object]) -> None:
        """Replace fields of the open chat, in RisuAI's own names: ``note``, ``localLore`` and so on."""
        self._set_chat(RisuChat.from_json({**self.stored, **values}))
        shared = self.variables.to_dict().get(GLOBAL, {})
        self.variables = ChatVariables({LOCAL: chat_variables(self.chat), GLOBAL: shared})

    # Other chats

    def new_chat(self) -> None:
        """Begin another chat, first in the list, and open it."""
        name = f"New Chat {len(self.chats) + 1}"
        made = made_id("chat", self.chat.id, name)
        raw: JsonObject = {"message": [], "note": "", "name": name, "localLore": [], "fmIndex": -1, "id": made}
        self._begin(RisuChat.from_json(raw))

    def open_chat(self, index: int) -> None:
        """Open another chat of the character.

        Raises:
            ConfigError: There is no such chat.
        """
        if not 0 <= index < len(self.chats):
            raise ConfigError(f"there is no chat {index}: the character has {len(self.chats)}")
        self._leave()
        self._enter(index)

    def branch(self, index: int) -> Chat:
        """Return a copy in which a branch that ends with this line is open, first in the list; this chat stays."""
        place = self._place(index)
        twin = self._copy()
        chat = self.chat
        kept = chat.messages[: 0 if place is None else place + 1]
        came_from = (chat_id(kept[-1]) if kept else None) or ""
        note = f"{{{{specialcomment::branchedfrom::{chat.id}::{chat.name}::{came_from}::}}}}"
        comment = RisuMessage(role="char", data=note, raw={"isComment": True, "disabled": True})
        names = {each.name for each in self.chats}
        name = next(name for name in _branch_names(chat.name) if name not in names)
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
        """Use another persona; the name and the text in use are stored in the one before."""
        self.settings = self.settings.switch_persona(index)

    def switch_preset(self, index: int) -> None:
        """Use another preset; what is in force is stored in the one before."""
        self.settings = self.settings.switch_preset(index)

    # Saving

    def snapshot(self) -> JsonObject:
        """Return everything that an operation may change as JSON: what a store keeps and undo goes back to."""
        character, members, settings, first_others, first_page = self._first
        found: JsonObject = {
            "chat": self.stored,
            "global_variables": {**self.variables.to_dict().get(GLOBAL, {})},
            "rerolls": self.rerolls.to_json(),
            "turns": self._turns,
        }
        if self._random is None:
            found["seed"] = self._seed
        others = [*self.chats[: self.page], *self.chats[self.page + 1 :]]
        if self.page != first_page or others != first_others:
            found["page"] = self.page
            found["other_chats"] = [chat_json(each) for each in others]
        if self.character is not character:
            found["character"] = thaw_object(self.character.raw)
        if self.members is not members and self.members != members:
            found["members"] = [thaw(each.raw) for each in self.members]
        if self.settings is not settings and (changes := settings_changes(settings, self.settings)):
            found["settings"] = changes
        return found

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Go back to a snapshot. What it does not say is as it was when the chat was opened."""
        character, members, settings, first_others, first_page = self._first
        chat = snapshot.get("chat")
        if not is_mapping(chat):
            raise ConfigError("this is no snapshot of a RisuAI chat: it has no chat")
        stored, others, page = snapshot.get("character"), snapshot.get("other_chats"), snapshot.get("page")
        self.character = RisuCharacter.from_json(stored) if is_mapping(stored) else character
        self.chats = [RisuChat.from_json(each) for each in others if is_mapping(each)] if is_sequence(others) else []
        if others is None:
            self.chats = [*first_others]
        self.page = min(max(page, 0), len(self.chats)) if isinstance(page, int) else first_page
        self.chats.insert(self.page, RisuChat.from_json(chat))
        given = snapshot.get("members")
        self.members = (
            tuple(RisuCharacter.from_json(each) for each in given if is_mapping(each))
            if is_sequence(given)
            else members
        )
        changed = snapshot.get("settings")
        self.settings = with_settings_changes(settings, changed) if is_mapping(changed) else settings
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
        self.error = None
        self._forget_script_results()

    # Inside

    async def _typed(self, kind: TurnKind, text: str, files: Sequence[str] = ()) -> Turn:
        text += "".join(f"{{{{inlayed::{file}}}}}" for file in files)
        self.rerolls.tails = []  # the position stays until there is a reply, as in RisuAI
        return await self._generate(kind, message=text, say_nothing=self._says_nothing())

    async def _lose_reply(self, text: str) -> Turn:
        """Store a text while the reply that a command asked for is on its way: RisuAI loses the reply."""
        turn = await self._copy()._generate("send")  # noqa: SLF001  # it is one of us
        await self._operate(lambda operation: operation.take_message(), message=text)
        return dataclasses.replace(turn, text="")

    async def _rerolled(self, kind: TurnKind) -> Turn:
        if not self.chat.messages:
            return Turn(kind=kind)
        self.rerolls.begin(self.chat.messages)
        self._set_messages(taken_back(self.chat.messages))
        return await self._generate(kind)

    async def _generate(
        self, kind: TurnKind, *, message: str = "", say_nothing: bool = False, speaker: str | None = None
    ) -> Turn:
        asker = Asker(self.host)
        context = self._context(
            asker,
            message=message,
            say_nothing=say_nothing,
            speaker=speaker,
            generation_type="continue" if kind == "continue" else "normal",
        )
        send = Send(self._builder, context, session=self._session, stamp=self._turns)
        self._turns += 1
        try:
            taken = await asker.work(send.take_message)
        finally:
            self._adopt(send)
        failure = None
        if taken:
            before = len(self.chat.messages)
            try:
                failure = await self._drive(send, asker)
            finally:
                self._adopt(send)
                self.rerolls.offer(send.choices)
                self.rerolls.push(self.chat.messages[before:])
                await self.host.checkpoint()
        self.error, self.warnings = send.error, tuple(send.warnings)
        if send.error is not None:
            raise failure or send.error.cause or RequestFailedError(send.error.message)
        if failure is not None and asker.broken:
            raise failure
        return Turn(kind=kind, text=self._last_reply(), exchanges=tuple(asker.exchanges))

    async def _drive(self, send: Send, asker: Asker) -> ModelError | None:
        """Let a send work in a thread and the host's model answer it; returns why the last request failed."""
        steps = send.generate()
        answer: Answer | None = None
        failure: ModelError | None = None
        while True:
            step = await asker.work(lambda answer=answer: _advance(steps, answer))
            self._adopt(send)
            if isinstance(step, SendResult):
                return failure
            assert isinstance(step, ModelRequest)
            await self.host.checkpoint()
            answer, failure = await self._answer(step, steps, send, asker)

    async def _answer(
        self, request: ModelRequest, steps: Generator[Ask, Answer, SendResult], send: Send, asker: Asker
    ) -> tuple[Answer, ModelError | None]:
        """Ask the host's model. Pieces of a stream go into the chat as they come."""
        opened = False

        def take(piece: ReplyPiece) -> None:
            nonlocal opened
            if not piece.text:
                return
            if not opened:
                steps.send(StreamOpened())
                opened = True
            steps.send(Chunk(piece.text))
            self._adopt(send)

        try:
            reply = await asker.ask(request.plan, take if request.streamable else None)
        except RequestStoppedError:
            return Stopped(), None
        except ModelError as error:
            asker.broken = opened
            if opened:
                return Stopped(), error
            body = error.raw_body if request.stream and isinstance(error, HTTPError) else ""
            return Failure(str(error), body), error
        if opened:
            return Chunk(None), None
        return Reply(reply.text, reply.alternatives), None

    async def _beside(self, kind: TurnKind, text: str) -> Turn:
        """Ask with a text behind the prompt; the chat stays as it is."""
        asker = Asker(self.host)
        context = self._context(asker)
        plan = await asker.work(lambda: self._builder.run(context))
        source: FrozenObject = {"stage": "application", "kind": kind, "reason": f"asked for with {kind}"}
        asked = plan.append_block(Block(role="system", content=text, id=kind, metadata={"source": source}))
        assert isinstance(asked, RisuPlan)
        reply = await asker.ask(asked, _ignore)
        return Turn(kind=kind, text=reply.text, exchanges=tuple(asker.exchanges))

    async def _operate(
        self, function: Callable[[Operation], _T], asker: Asker | None = None, *, message: str = ""
    ) -> _T:
        asker = asker or Asker(self.host)
        operation = self._operation(asker, message=message)
        try:
            return await asker.work(lambda: function(operation))
        finally:
            self._adopt(operation)
            self.error, self.warnings = None, tuple(operation.warnings)

    def _operation(self, asker: Asker | None, *, message: str = "") -> Operation:
        return Operation(self._builder, self._context(asker, message=message), session=self._session)

    def _context(self, asker: Asker | None, **changes: Unpack[RisuAIInputs]) -> RisuAIContext:
        inputs: RisuAIInputs = {
            "character": self.character,
            "members": self.members,
            "settings": self.settings,
            "history": self.chat,
            "variables": self.variables,
            "random": self._random or random.Random(f"{self._seed} {self._turns}").random,
        }
        if asker is not None:
            helpers = Helpers(asker, self._preset or self.settings.preset, self.settings)
            inputs["trigger_host"] = asking_host(self._trigger_host, helpers)
            inputs["memory"] = memory_models(self._memory, helpers, self.settings)
        return self._builder.make_context(**{**inputs, **changes})

    def _adopt(self, operation: Operation) -> None:
        """Take over what an operation has changed so far."""
        self._set_chat(operation.chat)
        operation.variables.changes().apply(self.variables)
        self.character, self.settings = operation.character, operation.settings
        if operation.members != self.members:
            self.members = operation.members

    def _says_nothing(self) -> bool:
        if self._say_nothing is not None:
            return self._say_nothing
        return bool(self.settings.raw.get("useSayNothing", True))

    def _last_reply(self) -> str:
        messages = self.chat.messages
        return messages[-1].data if messages and messages[-1].role == "char" else ""

    def _set_chat(self, chat: RisuChat) -> None:
        self.chats[self.page] = chat

    def _set_messages(self, messages: tuple[RisuMessage, ...]) -> None:
        self._set_chat(with_messages(self.chat, messages))

    def _place(self, index: int) -> int | None:
        count = len(self.chat.messages)
        place = index + count if index < 0 else index
        return place if 0 <= place < count else None

    def _places(self, start: int, end: int | None) -> range:
        first, last = self._place(start), self._place(start if end is None else end)
        return (
            range(first, (len(self.chat.messages) - 1 if last is None else last) + 1) if first is not None else range(0)
        )

    def _change_message(self, index: int, change: Callable[[RisuMessage], RisuMessage]) -> None:
        place, messages = self._place(index), self.chat.messages
        if place is not None:
            self._set_messages((*messages[:place], change(messages[place]), *messages[place + 1 :]))

    def _begin(self, chat: RisuChat) -> None:
        """Open a chat that is new in the list."""
        self._leave()
        self.chats.insert(0, chat)
        self._enter(0)

    def _leave(self) -> None:
        """Put the variables into the chat that is closed."""
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

    def _copy(self) -> Chat:
        twin = copy.copy(self)
        twin.chats = [*self.chats]
        twin.variables = ChatVariables(self.variables.to_dict())
        twin.rerolls = Rerolls.from_json(self.rerolls.to_json())
        return twin


def _advance(steps: Generator[Ask, Answer, SendResult], answer: Answer | None) -> Ask | SendResult:
    """Let a send work until it asks for something, or ends."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as done:
        return done.value


def _ignore(_: ReplyPiece) -> None:
    """The host shows the pieces of an answer that is not stored."""


def _with_user(context: RisuAIContext) -> Settings:
    """The settings with the application's user in the place of the persona in use."""
    if context.user is None:
        return context.settings
    return context.settings.replace(username=context.user_name, persona_prompt=context.persona_prompt)


def _opened(context: RisuAIContext, *, given_history: bool) -> tuple[list[RisuChat], int]:
    owner = context.owner
    chats = [owner.opened(each) for each in owner.stored_chats]
    page = owner.raw.get("chatPage")
    if not given_history and chats:
        return chats, page if isinstance(page, int) and 0 <= page < len(chats) else 0
    opened = owner.opened(context.chat)
    same = [index for index, each in enumerate(chats) if each == opened or (opened.id and each.id == opened.id)]
    if not same:
        return [opened, *chats], 0
    chats[same[0]] = opened
    return chats, same[0]


def _variables(context: RisuAIContext, chat: RisuChat, inputs: RisuAIInputs) -> ChatVariables:
    given = inputs.get("variables")
    if isinstance(given, InMemoryVariablesStore):
        return ChatVariables(given.to_dict())
    if given is not None:
        raise ConfigError("a chat keeps its variables itself: variables must be an InMemoryVariablesStore, or nothing")
    return ChatVariables({LOCAL: chat_variables(chat), GLOBAL: context.settings.global_variables})


def _branch_names(name: str) -> Generator[str]:
    name = _BRANCH.sub("", name)
    yield f"{name} (Branch)"
    number = 2
    while True:
        yield f"{name} (Branch {number})"
        number += 1
