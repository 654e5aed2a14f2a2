"""Talking to the character: a conversation over the workspace's documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tavernkit._turns import Chat, TurnKind
from tavernkit._turns import Turn as ChatTurn
from tavernkit._values import Json, JsonObject, LRUCache, is_list, is_mapping, is_object
from tavernkit.conversation import Conversation, MemoryStore, ReplyStream, ToolInput
from tavernkit.conversation._formats import chat_name, saved_chat
from tavernkit.conversation._opening import Materials, risu_ai_chat, silly_tavern_chat
from tavernkit.conversation._stores import SavedChat
from tavernkit.errors import TavernKitError, WarningLog
from tavernkit.risu_ai._context import RisuAIInputs
from tavernkit.risu_ai._conversation.chat import Chat as RisuAIChat
from tavernkit.risu_ai._files.chat_file import chat_json
from tavernkit.silly_tavern._conversation.chat import Chat as SillyTavernChat
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.studio._changes import Edit
from tavernkit.studio._document import JSONL, RISU_CHAT, Document, file_content, new_document, read_document
from tavernkit.studio._talk_models import Event, ModelChoice, ReportingTools, TalkModels
from tavernkit.studio._turn import RISU_AI, Turn, group_members
from tavernkit.studio._workspace import Changed, State
from tavernkit.studio.errors import StudioError

if TYPE_CHECKING:
    from tavernkit.studio._studio import Studio

Operation: TypeAlias = Literal[
    "edit", "delete", "delete_from", "hide", "unhide", "swipe_left", "greeting", "branch", "undo"
]
MAX_SEEN: Final = 500
"""How many replies keep their prompts."""

_KEPT_BY_THE_CHAT: Final = ("history", "message", "generation_type")


class Talk:
    """The conversation of a Studio. Its lines are those of the active chat document."""

    def __init__(self, studio: Studio, *, models: Sequence[ModelChoice] = (), tools: Sequence[ToolInput] = ()) -> None:
        """Make it.

        Args:
            studio: The Studio with the documents.
            models: Models to choose from besides the scripted one; the first is the default.
            tools: Functions that models may call.
        """
        self._studio = studio
        self.models = TalkModels(models)
        self._tools = ReportingTools(tools)
        self._conversation: Conversation | None = None
        self._built_from: State | None = None
        self._chat_id = ""
        """The document that the conversation was opened with."""
        self._stream: ReplyStream | None = None
        self._busy = self._stopped = False
        self._seen: LRUCache[tuple[str, str], str] = LRUCache(MAX_SEEN)
        """Ids of prompts by speaker and text."""
        self._last_look = ""

    def describe(self) -> JsonObject:
        """Return the chat as JSON."""
        state = self._studio.workspace.state
        document = self._chat_document(state)
        conversation = self._open()
        members = group_members(state)
        lines: list[Json] = [self._line(number, line) for number, line in enumerate(conversation.chat.lines)]
        return {
            "platform": Turn.of(state).platform,
            "model": self.models.chosen,
            "busy": self._busy,
            # The page has one undo; Talk offers it if it would undo a change of the chat.
            "can_undo": (self._studio.workspace.undo_label or "").startswith(f"{document.title}: "),
            "group": [{"name": each.title} for each in members] or None,
            "chat": document.id,
            "tools": [each.name for each in self._tools.definitions],
            "greeting": _greeting(conversation.chat),
            "lines": lines,
        }

    async def choose(self, model: str, script: Sequence[str] | None) -> None:
        """Choose another model.

        Args:
            model: Its id.
            script: What the scripted model says, in order.
        """
        self.models.require(model)
        self.check_free()
        await self.models.choose(model, script)
        self._conversation = None

    async def turn(self, kind: TurnKind, text: str) -> AsyncGenerator[Event]:
        """Run a turn, and yield its events as they arrive.

        Args:
            kind: What to do.
            text: What the user says; for ``speak`` who speaks, for ``quiet`` the prompt.
        """
        self.check_free()
        self._busy, self._stopped = True, False
        events: asyncio.Queue[Event] = asyncio.Queue()
        self._tools.report = events.put_nowait
        before = self._studio.workspace.state
        conversation: Conversation | None = None
        try:
            conversation = self._open()
            stream = self._stream = conversation.stream(text, kind=kind)
            try:
                reply = 0  # a round of a group, or of tool calls, has several
                async for piece in stream:
                    while not events.empty():
                        yield events.get_nowait()
                    if piece.text or piece.reasoning:
                        yield "piece", {"reply": reply, "text": piece.text, "reasoning": piece.reasoning}
                    reply += piece.finish_reason is not None
                turn = stream.turn
            except (TavernKitError, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and not self._stopped:
                    raise
                self._note(conversation.last)
                self._busy = False
                after = self._after(before, self._write_back(conversation, "reply"))
                if self._stopped:
                    yield "stopped", after
                else:
                    code = str(getattr(error, "code", None) or "model_failed").lower()
                    yield "error", {"error": {"message": str(error), "code": code}, **after}
                return
            while not events.empty():
                yield events.get_nowait()
            self._note(turn)
            self._busy = False
            changed = self._write_back(conversation, _LABELS.get(kind, kind))
            yield "done", {**self._turn_view(turn), **self._after(before, changed)}
        finally:
            self._busy = False
            self._tools.report = None
            if self._stream is not None:
                await self._stream.aclose()
                self._stream = None
            if conversation is not None and self._conversation is conversation:
                self._write_back(conversation, "reply")

    async def stop(self) -> bool:
        """Stop the current reply; the text so far is kept."""
        if self._stream is None:
            return False
        self._stopped = True
        await self._stream.aclose()
        return True

    async def change(self, operation: Operation, index: int, text: str) -> tuple[JsonObject, Changed]:
        """Change the chat without a model.

        Args:
            operation: What to do.
            index: The line.
            text: The new text of an edit.
        """
        self.check_free()
        workspace = self._studio.workspace
        before = workspace.state
        if operation == "undo":
            # The page has one undo for all documents, and the chat is one of them.
            changed = workspace.undo()
            return self.describe(), changed
        conversation = self._open()
        if operation == "branch":
            twin = await conversation.branch(index, store=MemoryStore())
            name = chat_name(twin.chat) or f"{self._chat_document(before).name} - Branch"
            format_ = JSONL if isinstance(twin.chat, SillyTavernChat) else RISU_CHAT
            workspace.add(new_document("", "chat", name, chat_data(twin.chat), format_=format_))
        elif operation == "swipe_left":
            await conversation.swipe("left")
        elif operation == "edit":
            await conversation.edit(index, text)
        elif operation == "delete":
            await conversation.delete(index)
        elif operation == "delete_from":
            await conversation.delete_from(index)
        elif operation == "hide":
            await conversation.hide(index)
        elif operation == "unhide":
            await conversation.unhide(index)
        elif isinstance(conversation.chat, RisuAIChat) and not conversation.chat.lines:
            # A chat without lines begins with the greeting that the turn names.
            turn = before.one("turn")
            assert turn is not None
            changed = workspace.edit(
                [Edit(document=turn.id, op="add", path="/greeting", value=index)], label="greeting"
            )
            return self.describe(), changed
        else:
            await conversation.choose_greeting(index)
        if operation != "branch":
            self._write_back(conversation, _LABELS.get(operation, operation))
        if not conversation.chat.lines:  # a chat that is opened without lines begins with a greeting
            self._conversation = None
        return self.describe(), Changed(before, workspace.state)

    async def aclose(self) -> None:
        """Stop, and close the model."""
        await self.stop()
        if self._conversation is not None:
            await self._conversation.aclose()
            self._conversation = None
        await self.models.aclose()

    def forget(self) -> None:
        """Make the next turn start a new conversation with the current documents."""
        self._conversation = None

    def check_free(self, document: str | None = None) -> None:
        """Raise if a reply is still streaming.

        Args:
            document: Raise only if the reply is added to this document.
        """
        if self._busy and document in (None, self._chat_id):
            raise StudioError(409, "a reply is still coming: wait for it, or stop it", code="busy")

    def _open(self) -> Conversation:
        """Return the conversation; a new one if documents have changed since it was made, but not during a reply."""
        if self._stream is not None and self._conversation is not None:
            return self._conversation
        state = self._studio.workspace.state
        if self._conversation is not None and self._built_from is not None and _same(self._built_from, state):
            return self._conversation
        state = self._with_fitting_chat(state)
        document = self._chat_document(state)
        model = self.models.model()
        given = Materials(model=model, tools=self._tools, greeting=Turn.of(state).greeting, warn=WarningLog())
        chat: Chat
        if Turn.of(state).platform == RISU_AI:
            found = {key: value for key, value in self._studio.inputs.risu_ai(state).items() if key not in _NOT_OF_RISU}
            inputs: RisuAIInputs = {**found, "on_overflow": "return"}  # pyright: ignore[reportAssignmentType]  # a part of the same inputs
            inputs["history"] = self._studio.inputs.risu_chat(state)
            chat = risu_ai_chat(MemoryStore(), document.name, inputs, given)
        else:
            kept = self._studio.inputs.silly_tavern(state)
            rest: SillyTavernInputs = {key: value for key, value in kept.items() if key not in _KEPT_BY_THE_CHAT}  # pyright: ignore[reportAssignmentType]  # as above
            store = MemoryStore(SavedChat(file=file_content(document)))
            chat = silly_tavern_chat(store, document.name, rest, given, builder=self._studio.inputs.base)
        self._conversation = Conversation(chat, model=model, tools=self._tools, undo_limit=0)
        self._built_from, self._chat_id = state, document.id
        return self._conversation

    def _with_fitting_chat(self, state: State) -> State:
        """Return a state whose chat belongs to the platform; a chat of the other program is copied."""
        document = self._chat_document(state)
        risu = Turn.of(state).platform == RISU_AI
        if risu == (document.format == RISU_CHAT):
            return state
        if risu:
            data: Json = chat_json(self._studio.inputs.risu_chat(state))
            copy = new_document("", "chat", f"{document.name} (RisuAI)", data, format_=RISU_CHAT)
        else:
            content = self._studio.inputs.silly_tavern_chat(state).dumps().encode("utf-8", "surrogatepass")
            copy = read_document(content, name=f"{document.name} (SillyTavern).jsonl", kind="chat")
        self._studio.workspace.add(copy)
        return self._studio.workspace.state

    def _write_back(self, conversation: Conversation, label: str) -> Changed:
        """Copy the conversation's chat to the chat document, as one undo step."""
        workspace = self._studio.workspace
        before = workspace.state
        document = workspace.document(self._chat_id)
        if not _same(self._built_from, before):  # somebody edited the documents during the reply
            self._conversation = None
        changed = workspace.change(document.id, chat_data(conversation.chat), f"{document.title}: {label}")
        if self._conversation is not None:
            self._built_from = workspace.state
        return Changed(before, changed.after)

    def _chat_document(self, state: State) -> Document:
        document = state.one("chat")
        assert document is not None
        return document

    def _note(self, turn: ChatTurn | None) -> None:
        """Record which prompt each reply of a turn saw."""
        state, revision = self._studio.workspace.state, self._studio.workspace.revision
        for exchange in turn.exchanges if turn is not None else ():
            look = self._studio.prompts.make(state, revision, exchange.plan)
            self._seen.put(("", exchange.reply.text.strip()), look.id)
            self._last_look = look.id
        if turn is not None and turn.exchanges:
            self._seen.put(("", turn.text.strip()), self._last_look)

    def _line(self, number: int, line: Mapping[str, object]) -> JsonObject:
        if "mes" in line:
            text, name = str(line.get("mes") or ""), str(line.get("name") or "")
            role = "user" if line.get("is_user") else "assistant"
            swipes, at, extra = line.get("swipes"), line.get("swipe_id"), line.get("extra")
            hidden = bool(line.get("is_system"))
            reasoning = extra.get("reasoning") if is_mapping(extra) else None
        else:
            text, role = str(line.get("data") or ""), "user" if line.get("role") == "user" else "assistant"
            speaker = self._studio.workspace.state.one("persona" if role == "user" else "card")
            name = str(line.get("name") or (speaker.title if speaker is not None else ""))
            swipes, at, reasoning = line.get("swipes"), line.get("swipeId"), None
            hidden = bool(line.get("disabled"))
        count = len(swipes) if is_list(swipes) else 0
        return {
            "index": number,
            "name": name,
            "role": role,
            "text": text,
            "hidden": hidden,
            "swipe": at if isinstance(at, int) else 0,
            "swipes": max(count, 1),
            "plan": self._seen.get(("", text.strip())) if role == "assistant" else None,
            "reasoning": reasoning if isinstance(reasoning, str) else "",
        }

    def _turn_view(self, turn: ChatTurn) -> JsonObject:
        usage = turn.reply.usage if turn.reply is not None else None
        return {
            "kind": turn.kind,
            "text": turn.text,
            "plan": self._seen.get(("", turn.text.strip())),
            "usage": usage.to_dict() if usage is not None else None,
        }

    def _after(self, before: State, changed: Changed) -> JsonObject:
        return {"talk": self.describe(), "edit": self._studio.changes_json(Changed(before, changed.after))}


def _greeting(chat: Chat) -> JsonObject | None:
    """Return the available greetings and the current one; RisuAI's greeting is not a line, so its text is included.

    SillyTavern allows a choice only before the first message, RisuAI always.
    """
    if isinstance(chat, RisuAIChat):
        if chat.character.is_group:
            return None
        texts = [chat.character.first_message or "", *(chat.character.alternate_greetings or ())]
        chosen = chat.greeting_index if 0 <= chat.greeting_index < len(texts) else 0
        return {"chosen": chosen, "choices": list(texts), "text": texts[chosen]}
    if len(chat.lines) != 1:
        return None
    line = chat.lines[0]
    swipes, at = line.get("swipes"), line.get("swipe_id")
    if line.get("is_user") or not is_list(swipes) or len(swipes) < 2:
        return None
    return {"chosen": at if isinstance(at, int) else 0, "choices": [str(each) for each in swipes], "text": None}


def chat_data(chat: Chat) -> Json:
    """Return a chat as document data."""
    file = saved_chat(chat).file
    if isinstance(chat, RisuAIChat):
        return read_document(file, name="chat.json", kind="chat").data
    return read_document(file, name="chat.jsonl", kind="chat").data


def _same(one: State | None, other: State) -> bool:
    """Return True if two states would make the same conversation."""
    if one is None:
        return False
    if one is other:
        return True
    if one.active != other.active or one.documents.keys() != other.documents.keys():
        return False
    return all(
        one.documents[key].data is document.data or _only_message(one.documents[key], document)
        for key, document in other.documents.items()
    )


def _only_message(one: Document, other: Document) -> bool:
    """Return True if turns differ only in the next message, which each turn passes to the conversation."""
    if one.kind != "turn" or not is_object(one.data) or not is_object(other.data):
        return False
    return {**one.data, "message": ""} == {**other.data, "message": ""}


_NOT_OF_RISU: Final = ("history", "message", "generation_type", "seed")
_LABELS: Final[Mapping[str, str]] = {
    "send": "reply",
    "regenerate": "another reply",
    "swipe": "another reply",
    "continue": "more of the reply",
    "speak": "reply",
    "edit": "edited line",
    "delete": "deleted line",
    "delete_from": "deleted lines",
    "hide": "hidden line",
    "unhide": "shown line",
    "greeting": "greeting",
}
