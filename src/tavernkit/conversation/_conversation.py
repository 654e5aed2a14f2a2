"""A chat with its model and its store, for bots and other programs."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from tavernkit._arguments import require, require_choice
from tavernkit._turns import Chat, OnPiece, Turn, TurnKind
from tavernkit.cards._character import User
from tavernkit.conversation._attachments import AttachmentInput, load_attachments, send_with_attachments
from tavernkit.conversation._formats import chat_name, reserve_names
from tavernkit.conversation._installations import find_chat, local_time, open_folder_chat, open_save
from tavernkit.conversation._keeping import ChatKeeper
from tavernkit.conversation._model_host import ModelHost
from tavernkit.conversation._opening import (
    BookInput,
    CardInput,
    GroupInput,
    Materials,
    Platform,
    PresetInput,
    SettingsInput,
    open_risu_ai,
    open_silly_tavern,
    open_store,
)
from tavernkit.conversation._pending_turn import PendingTurn, Send
from tavernkit.conversation._reply_stream import ReplyStream
from tavernkit.conversation._stores import ConversationStore, MemoryStore
from tavernkit.conversation._tools import ToolBox, ToolInput
from tavernkit.conversation._undo import UNDO_LIMIT, UndoHistory
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models._protocol import AsyncContext, Model
from tavernkit.models._reply import ReplyPiece
from tavernkit.silly_tavern._files.data_folder import DataFolder
from tavernkit.silly_tavern._files.preset import Preset

if TYPE_CHECKING:
    from tavernkit.conversation._blocking import BlockingConversation
    from tavernkit.risu_ai._context import RisuAIInputs
    from tavernkit.silly_tavern._inputs import SillyTavernInputs

KINDS: Final[Sequence[TurnKind]] = get_args(TurnKind)


class Conversation(ModelHost, ChatKeeper, AsyncContext):
    """One chat with its model and the place where it is saved.

    >>> chat = Conversation.open(                                                     # doctest: +SKIP
    ...     "aria.jsonl", card="aria.png", books=["tidewatch.json"], preset="preset.json",
    ...     user="Ann", model=tk.model("openai:gpt-4o"),
    ... )
    >>> turn = await chat.send("Who lit the lamp?")                                   # doctest: +SKIP
    >>> async for piece in chat.stream("And who are you?"):                           # doctest: +SKIP
    ...     print(piece.text, end="")

    Operations run one at a time; a second one waits for the first. The chat is saved before the
    model is asked and after every operation. ``async with`` closes the model and waits until everything is saved.
    """

    def __init__(
        self,
        chat: Chat,
        *,
        model: Model | None = None,
        store: ConversationStore | None = None,
        tools: Iterable[ToolInput] | ToolBox = (),
        options: Mapping[str, object] | None = None,
        undo_limit: int = UNDO_LIMIT,
        undo: UndoHistory | None = None,
    ) -> None:
        """Combine a chat with a model and a store. ``open()`` also makes the chat.

        Args:
            chat: A chat of either platform.
            model: The model that answers; without one, ``begin()`` turns and pass replies on yourself.
            store: Where the chat is saved; in memory by default.
            tools: Functions and toolsets that the model may call.
            options: Options for the model that override the preset's, e.g. ``{"temperature": 0.7}``.
            undo_limit: How many operations can be undone.
            undo: The undo history from the store; empty by default.
        """
        ModelHost.__init__(self, model, tools, options)
        history = UndoHistory(undo_limit) if undo is None else undo
        ChatKeeper.__init__(self, chat, MemoryStore() if store is None else store, history)
        self.last: Turn | None = None
        """The newest turn: ``last.plan`` is the prompt that the last reply saw."""
        chat.host = self

    @classmethod
    def open(
        cls,
        store: str | os.PathLike[str] | ConversationStore | None = None,
        *,
        card: CardInput | None = None,
        members: Sequence[CardInput] = (),
        group: GroupInput | None = None,
        books: Sequence[BookInput] = (),
        preset: PresetInput | None = None,
        settings: SettingsInput | None = None,
        user: str | User | None = None,
        persona: str = "",
        greeting: int = 0,
        allow_scripts: bool = False,
        model: Model | None = None,
        tools: Iterable[ToolInput] = (),
        options: Mapping[str, object] | None = None,
        platform: Platform = "silly_tavern",
        inputs: SillyTavernInputs | RisuAIInputs | None = None,
        undo_limit: int = UNDO_LIMIT,
        warn: Warn = log_warning,
    ) -> Self:
        """Open a conversation from files or loaded values. A chat in the store continues, otherwise a new one starts.

        Args:
            store: Where the chat is saved: a file in the platform's own format, or any store; in memory by default.
            card: The character.
            members: The characters of a group.
            group: The group's settings; by default, everybody may speak.
            books: Active lorebooks, in either program's format.
            preset: Prompts and samplers; the settings' own by default.
            settings: SillyTavern's ``settings.json``, or RisuAI's settings of a save.
            user: The user's name.
            persona: The user's description.
            greeting: Which greeting a new chat begins with: 0 is the first message, 1 the first alternate, -1 none
                (SillyTavern only).
            allow_scripts: Run the regex scripts inside the card and the preset, which SillyTavern asks about first.
            model: The model that answers, such as ``tk.model("openai:gpt-4o")``.
            tools: Functions and toolsets that the model may call.
            options: Options for the model that override the preset's.
            platform: ``silly_tavern`` or ``risu_ai``.
            inputs: Other build inputs of the platform (``SillyTavernInputs``, ``RisuAIInputs``).
            undo_limit: How many operations can be undone.
            warn: Called with warnings about damaged files.

        Raises:
            ConfigError: An argument is missing, or belongs to the other platform.
            FileFormatError: A file cannot be read, or is of the wrong kind.
        """
        require_choice("platform", platform, ("silly_tavern", "risu_ai"))
        require("inputs", inputs, Mapping[str, object] | None)
        if card is None and not members:
            raise ConfigError("pass card=, or members= for a group", code="CARD_REQUIRED")
        box = ToolBox(tools)
        given = Materials(
            card=card,
            members=members,
            group=group,
            books=books,
            preset=preset,
            settings=settings,
            user=user,
            persona=persona,
            greeting=greeting,
            allow_scripts=allow_scripts,
            model=model,
            tools=box,
            undo=UndoHistory(undo_limit),
            warn=warn,
        )
        place, name = open_store(store, platform)
        maker = open_silly_tavern if platform == "silly_tavern" else open_risu_ai
        chat = maker(given, place, name, inputs)  # pyright: ignore[reportArgumentType]  # inputs of this platform
        return cls(chat, model=model, store=place, tools=box, options=options, undo=given.undo)

    @classmethod
    def from_sillytavern(
        cls,
        folder: str | os.PathLike[str] | DataFolder,
        character: str | None = None,
        chat: str | None = None,
        *,
        group: str | None = None,
        store: str | os.PathLike[str] | ConversationStore | None = None,
        preset: str | os.PathLike[str] | Preset | None = None,
        user: str | User | None = None,
        greeting: int = 0,
        model: Model | None = None,
        tools: Iterable[ToolInput] = (),
        options: Mapping[str, object] | None = None,
        inputs: SillyTavernInputs | None = None,
        undo_limit: int = UNDO_LIMIT,
        now: Callable[[], datetime] = local_time,
        warn: Warn = log_warning,
    ) -> Self:
        """Open a chat of SillyTavern's data folder with everything that belongs to it, and save it there.

        It writes the chat's file, ``settings.json`` (global variables) and the group's file: SillyTavern must not run.

        Args:
            folder: ``data/default-user`` of an installation.
            character: The character: its file, or its name.
            chat: The chat's name; the one used last by default, a new one if there is none or the name is new.
            group: The group's name or id, instead of a character.
            store: Save elsewhere instead, and leave the folder alone.
            preset: A preset of the folder by its name, or another one; the one in use by default.
            user: The user's name, instead of the persona's.
            greeting: Which greeting a new chat begins with.
            model: The model that answers.
            tools: Functions and toolsets that the model may call.
            options: Options for the model that override the preset's.
            inputs: Other build inputs.
            undo_limit: How many operations can be undone.
            now: Returns the current time, for the name of a new chat.
            warn: Called with warnings about what is damaged or not supported.

        Raises:
            ConfigError: There is no such character or group; the message lists those that exist.
        """
        require("inputs", inputs, Mapping[str, object] | None)
        box = ToolBox(tools)
        undo = UndoHistory(undo_limit)
        given = Materials(preset=preset, user=user, greeting=greeting, model=model, tools=box, undo=undo, warn=warn)
        opened = folder if isinstance(folder, DataFolder) else DataFolder(folder, warn=warn)
        made, place = open_folder_chat(
            find_chat(opened, character, chat, group=group, now=now),
            given,
            store=None if store is None else open_store(store, "silly_tavern")[0],
            more=inputs,
        )
        return cls(made, model=model, store=place, tools=box, options=options, undo=given.undo)

    @classmethod
    def from_risuai(
        cls,
        path: str | os.PathLike[str],
        character: str | int,
        chat: str | int | None = None,
        *,
        store: str | os.PathLike[str] | ConversationStore | None = None,
        persona: str | int | None = None,
        preset: str | int | None = None,
        user: str | User | None = None,
        model: Model | None = None,
        tools: Iterable[ToolInput] = (),
        options: Mapping[str, object] | None = None,
        inputs: RisuAIInputs | None = None,
        undo_limit: int = UNDO_LIMIT,
        warn: Warn = log_warning,
    ) -> Self:
        """Open a chat of a RisuAI save with everything that is switched on there.

        Without a store, the chat is saved in the save itself, which is rewritten each time. A separate chat file
        (``store="mira.json"``) is faster; RisuAI can import it.

        Args:
            path: A local backup, a database file, or RisuAI's data folder (which is only read: pass a store).
            character: Name, id or index of the character or group.
            chat: Name, id or index of the chat; the open one by default.
            store: Where the chat is saved; a chat in it continues.
            persona: Switch to this persona first: its name, id or index.
            preset: Switch to this preset first: its name or index.
            user: The user's name, instead of the persona's.
            model: The model that answers.
            tools: Functions and toolsets that the model may call.
            options: Options for the model that override the preset's.
            inputs: Other inputs of builds and sends.
            undo_limit: How many operations can be undone.
            warn: Called with warnings about damaged data.

        Raises:
            ConfigError: There is no such character, chat, persona or preset; the message lists those that exist.
        """
        require("inputs", inputs, Mapping[str, object] | None)
        box = ToolBox(tools)
        given = Materials(user=user, model=model, tools=box, undo=UndoHistory(undo_limit), warn=warn)
        made, place = open_save(
            Path(path),
            given,
            character=character,
            chat=chat,
            persona=persona,
            preset=preset,
            store=None if store is None else open_store(store, "risu_ai")[0],
            more=inputs,
        )
        return cls(made, model=model, store=place, tools=box, options=options, undo=given.undo)

    async def send(self, text: str = "", *, attachments: Iterable[AttachmentInput] = ()) -> Turn:
        """Send the user's message and return the reply; in a group, the replies of everybody whose turn it is.

        An empty message asks for another reply, as an empty input box does in both programs.

        Args:
            text: What the user says.
            attachments: Pictures, audio and texts sent with it: paths or ``Attachment`` values. The preset and the
                model decide whether pictures are sent.

        Raises:
            ModelError: There is no usable reply. The user's message and a partial reply stay in the chat.
            StoreError: The chat could not be saved. If that was the user's message, no model was asked.
        """
        return await self._run("send", text, attachments=load_attachments(attachments))

    def stream(
        self, text: str = "", *, kind: TurnKind = "send", attachments: Iterable[AttachmentInput] = ()
    ) -> ReplyStream:
        """Run a turn and iterate over the reply as it arrives.

        Leaving the loop stops the model and keeps the partial reply.

        Args:
            text: What the user says; for ``continue`` the text to begin with, for ``quiet`` the prompt, for ``speak``
                the member of the group.
            kind: The operation.
            attachments: Files sent with the user's message.
        """
        require_choice("kind", kind, KINDS)
        loaded = load_attachments(attachments)

        def start(on_piece: OnPiece) -> Coroutine[Any, Any, Turn]:
            self._refuse_inside_turn()
            return self._run(kind, text, on_piece, loaded)

        stream = ReplyStream(start)
        self._held.add(stream)
        return stream

    async def begin(
        self, text: str = "", *, kind: TurnKind = "send", attachments: Iterable[AttachmentInput] = ()
    ) -> PendingTurn:
        """Begin a turn and return it with its prompt. You ask a model yourself and pass on the reply.

        Args:
            text: What the user says, as for ``stream()``.
            kind: The operation, as for ``stream()``.
            attachments: Files sent with the user's message.

        Raises:
            StoreError: The user's message could not be saved.
        """
        require_choice("kind", kind, KINDS)
        loaded = load_attachments(attachments)
        self._refuse_inside_turn()
        pending = PendingTurn(lambda send: self._run(kind, text, attachments=loaded, send=send))
        self._held.add(pending)
        await pending.next_plan()
        return pending

    async def regenerate(self) -> Turn:
        """Ask for the last reply again; in a group, for the last round."""
        return await self._run("regenerate")

    async def swipe(self, direction: Literal["left", "right"] = "right") -> Turn:
        """Show the next swipe of the last reply; right of the newest one, ask for another."""
        require_choice("direction", direction, ("left", "right"))
        return await self._turn("swipe", lambda: self.chat.swipe(direction))

    async def continue_reply(self, text: str = "") -> Turn:
        """Let the model continue the last message."""
        return await self._run("continue", text)

    async def impersonate(self) -> Turn:
        """Let the model write the user's next message. It is returned, not stored."""
        return await self._run("impersonate")

    async def quiet(self, prompt: str) -> Turn:
        """Ask something outside the chat. The answer is returned, not stored."""
        return await self._run("quiet", prompt)

    async def speak(self, member: str) -> Turn:
        """Let this member of the group speak next, even if muted."""
        return await self._run("speak", member)

    async def branch(self, index: int = -1, *, store: ConversationStore | None = None) -> Conversation:
        """Return a new conversation with a copy of the chat up to a line. It uses the same model.

        Args:
            index: The last line of the branch.
            store: Where the branch is saved; next to this conversation by default.
        """
        async with self._operation():
            reserve_names(self.chat, self.store.names())
            chat = self.chat.branch(self._place(index))
            twin = Conversation(
                chat,
                model=self.model,
                store=self.store.branch(chat_name(chat)) if store is None else store,
                tools=self.tools,
                options=self.options,
                undo_limit=self._history.limit,
            )
            await twin.save()
        return twin

    def blocking(self) -> BlockingConversation:
        """Return the same conversation for programs without an event loop."""
        from tavernkit.conversation._blocking import BlockingConversation

        return BlockingConversation(self)

    async def aclose(self) -> None:
        """Stop a reply that is still streaming, save, and close the model."""
        await self._close()
        if self.model is not None:
            await self.model.aclose()

    async def _run(
        self,
        kind: TurnKind,
        text: str = "",
        on_piece: OnPiece | None = None,
        attachments: Sequence[Attachment] = (),
        send: Send | None = None,
    ) -> Turn:
        require("text", text, str)
        chat = self.chat
        if attachments and kind != "send":
            raise ConfigError(f"attachments go with a message that is sent, not with {kind!r}")
        turns: dict[TurnKind, Callable[[], Awaitable[Turn]]] = {
            "send": lambda: send_with_attachments(chat, text, attachments) if attachments else chat.send(text),
            "regenerate": chat.regenerate,
            "swipe": chat.swipe,
            "continue": lambda: chat.continue_reply(text),
            "impersonate": chat.impersonate,
            "quiet": lambda: chat.quiet(text),
            "speak": lambda: chat.speak(text),
        }
        return await self._turn(kind, turns[kind], on_piece, send)

    async def _turn(
        self,
        kind: TurnKind,
        work: Callable[[], Awaitable[Turn]],
        on_piece: OnPiece | None = None,
        send: Send | None = None,
    ) -> Turn:
        shown = False

        def tell(piece: ReplyPiece) -> None:
            nonlocal shown
            shown = shown or bool(piece.text)
            if on_piece is not None:
                on_piece(piece)

        async with self._operation(turn=True):
            self._exchanges, self._on_piece, self._send = [], tell if on_piece is not None else None, send
            try:
                self.last = await work()
            except BaseException:
                exchanges = tuple(self._exchanges)
                if exchanges:
                    self.last = Turn(kind=kind, text=exchanges[-1].reply.text, exchanges=exchanges)
                raise
            finally:
                self._on_piece = self._send = None
        if self.last.text and not shown:  # it already existed, or could not be streamed
            tell(ReplyPiece(text=self.last.text))
        return self.last
