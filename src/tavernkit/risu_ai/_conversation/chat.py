"""One RisuAI chat: its state, and everything a user can do to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar, Unpack

from tavernkit import models
from tavernkit._turns import Turn, TurnKind
from tavernkit._values import freeze_object
from tavernkit.errors import ConfigError, PipelineError
from tavernkit.models._reply import ReplyPiece
from tavernkit.models.errors import HTTPError, ModelError
from tavernkit.prompt._context import random_numbers
from tavernkit.risu_ai._chat.chat_log import with_messages
from tavernkit.risu_ai._chat.groups import group_members
from tavernkit.risu_ai._context import RisuAIContext, RisuAIInputs
from tavernkit.risu_ai._conversation.asking import (
    Asker,
    Helpers,
    advance,
    asking_host,
    memory_models,
    preview_models,
    receive,
    with_question,
)
from tavernkit.risu_ai._conversation.chat_state import ChatState
from tavernkit.risu_ai._conversation.rerolls import taken_back
from tavernkit.risu_ai._objects import made_id
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._regex_scripts import hide_styles, restore_styles
from tavernkit.risu_ai._requests.messages import tool_mark
from tavernkit.risu_ai._requests.parameters import HELPER_MODE
from tavernkit.risu_ai._sending.exchange import (
    Answer,
    Ask,
    Chunk,
    Failure,
    ModelRequest,
    Reply,
    RequestFailedError,
    RequestStoppedError,
    Stopped,
)
from tavernkit.risu_ai._sending.operation import Operation
from tavernkit.risu_ai._sending.replies import (
    TRANSLATION_MODE,
    read_suggestions,
    suggestion_messages,
    suggestion_prompt,
    translation_messages,
)
from tavernkit.risu_ai._sending.send import Send
from tavernkit.risu_ai.errors import MemoryFailedError

IMPERSONATION = "[Write the next message of {{user}}, in their own voice. Write nothing for {{char}}.]"
"""RisuAI has no prompt for this: it is added after everything else."""

MAX_TOOL_ROUNDS = 8
"""How often a model may call tools before it must answer."""

Translator: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Translates a text into a language."""

_T = TypeVar("_T")


class Chat(ChatState):
    """One chat with its state: messages, variables, note, lore, memory, and earlier replies.

    Takes every input of ``RisuAIInputs``: ``Chat(character=card, user=user, preset=preset, host=host)`` starts a chat
    with a card, ``history`` continues one; ``Save.open()`` makes one from a save. Operations are those of
    ``tavernkit._turns.Chat`` with the effects they have in RisuAI, and some that only RisuAI has.

    As in RisuAI, rerolling does not undo a turn's changes: variables, notes and summaries stay. Results of regex
    scripts and the globals of Lua scripts are kept as long as the object exists; they are not saved.
    """

    # Turns

    async def send(
        self, text: str = "", *, files: Sequence[str] = (), speaker: str | None = None, commands: bool = True
    ) -> Turn:
        """Store the user's message and ask for a reply; in a group, for one of each speaker whose turn it is.

        Args:
            text: The message. A text that begins with ``/`` is a command line; it is sent if a command is unknown.
            files: Ids of pictures (among ``inlays``) that are attached.
            speaker: Who answers in a group (name or id), even if muted.
            commands: Run command lines; otherwise they are ordinary texts.
        """
        self.rerolls.meet(self.character.id)
        if commands and text.startswith("/"):
            turn = await self._run_command("send", text)
            if turn is not None:
                return turn
        return await self._typed("send", text, files, speaker=self._member(speaker))

    async def continue_reply(self, text: str = "", *, speaker: str | None = None) -> Turn:
        """Let the model continue the last message.

        Args:
            text: What the user typed; it is put before the continuation.
            speaker: Who continues in a group (name or id). By default a whole round speaks, as in RisuAI.
        """
        messages = self.chat.messages
        if len(messages) < 2 or messages[-1].role != "char":
            return Turn(kind="continue")
        self.rerolls.meet(self.character.id)
        if self._quirks and text.startswith("/"):  # in RisuAI this is the send button with another flag
            turn = await self._run_command("continue", text)
            if turn is not None:
                return turn
        return await self._typed("continue", text, speaker=self._member(speaker))

    async def generate(self) -> Turn:
        """Let the model answer the chat as it is, as RisuAI's auto mode does each time."""
        self.rerolls.meet(self.character.id)
        return await self._generate("send")

    async def regenerate(self) -> Turn:
        """Ask for the last reply (in a group: the last round) again."""
        self.rerolls.meet(self.character.id)
        return await self._rerolled("regenerate")

    async def swipe(self, direction: Literal["left", "right"] = "right") -> Turn:
        """Show the next swipe of the last reply; right of the newest one, ask for another."""
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
        return await self._generate("speak", speaker=self._member(member))

    async def impersonate(self) -> Turn:
        """Let the model write the user's next message. It is returned, not stored."""
        return await self._ask_outside_chat("impersonate", await self._asker().work(self._impersonation))

    async def quiet(self, prompt: str) -> Turn:
        """Ask something outside the chat. The answer is returned, not stored."""
        return await self._ask_outside_chat("quiet", prompt)

    async def suggest(self) -> list[str]:
        """Ask the auxiliary model what the user could say next (RisuAI's auto-suggest). Nothing is stored."""
        asker = self._asker()
        prompt = suggestion_prompt(self.settings)
        expanded = await asker.work(lambda: self._operation(asker).expand(prompt))
        asked = suggestion_messages(self.chat, expanded)
        reply = await asker.ask(self._helpers(asker).plan(asked, HELPER_MODE))
        return read_suggestions(reply.text)

    async def translate(self, text: str, language: str = "en", *, translator: Translator | None = None) -> str:
        """Translate a text, and run the character's scripts for translations (``edittrans``) over it.

        To have it done in every turn, pass ``send_steps``.

        Args:
            text: The text; its style blocks stay unchanged.
            language: The language to translate into.
            translator: Translates; by default the auxiliary model does.
        """
        asker = self._asker()
        hidden, styles = hide_styles(text)
        if translator is not None:
            made = await translator(hidden, language)
        else:
            asked = translation_messages(hidden, language, self.settings)
            made = (await asker.ask(self._helpers(asker).plan(asked, TRANSLATION_MODE))).text
        return await asker.work(lambda: self._operation(asker).translated(restore_styles(made, styles)))

    def preview(self, text: str = "", *, kind: TurnKind = "send", speaker: str | None = None) -> RisuPlan:
        """Return the prompt that an operation would send. Nothing changes and no model is asked.

        So if long-term memory needs a model first, the chat is cut instead.

        Args:
            text: What the user says, or what a ``quiet`` prompt asks.
            kind: The operation.
            speaker: Who answers in a group (name or id); by default the first one whose turn it is.
        """
        changes: RisuAIInputs = {
            # Otherwise the application's own random numbers would be used up.
            "random": random_numbers(f"{self._seed} {self._turns}"),
            "speaker": self._member(speaker),
        }
        if kind in ("regenerate", "swipe"):
            changes["history"] = with_messages(self.chat, taken_back(self.chat.messages))
        elif kind in ("send", "continue"):
            changes |= {"message": text, "say_nothing": self._says_nothing()}
        if kind == "continue":
            changes["generation_type"] = "continue"
        read = self.variables.read
        try:
            plan = self._previewed(changes)
        finally:
            self.variables.read = read
        if kind in ("impersonate", "quiet"):
            return with_question(plan, kind, self._impersonation() if kind == "impersonate" else text)
        return plan

    # Triggers

    async def run_trigger(self, name: str, *, trigger_id: str | None = None) -> None:
        """Run the manual triggers with a name, like a click on their element; groups have none.

        Args:
            name: The name of the triggers.
            trigger_id: The id of the clicked element, which triggers can read.
        """
        await self._operate(lambda operation: operation.run_trigger(name, trigger_id))

    async def click(self, name: str) -> None:
        """Call the Lua handlers of a button; groups have none."""
        await self._operate(lambda operation: operation.click(name))

    def display(self, index: int) -> str:
        """Return what RisuAI's screen would show of a line, or of the greeting (-1), before Markdown.

        As in RisuAI, Lua listeners of displayed texts may set variables of the chat.
        """
        index = index if index == -1 else self._place(index)
        operation = self._operation(None)
        try:
            return operation.display(index)
        finally:
            operation.variables.changes().apply(self.variables)

    # Inside

    def _previewed(self, changes: RisuAIInputs) -> RisuPlan:
        models = preview_models(self._memory, self.settings)
        try:
            return self._builder.run(self._context(None, **{**changes, "memory": models}))
        except PipelineError as error:
            if not isinstance(error.__cause__, MemoryFailedError):
                raise
        return self._builder.run(self._context(None, **changes))

    def _asker(self) -> Asker:
        return Asker(self.host, self._work)

    def _member(self, named: str | None) -> str | None:
        """The id of a member of the group, by id or name."""
        if named is None:
            return None
        members = group_members(self.character, self.members)
        found = next((each.id for each in members if named in (each.id, each.name)), None)
        if found is None:
            names = ", ".join(each.name for each in members) or "(there are none)"
            raise ConfigError(f"the group has no member {named!r}: choose one of {names}")
        return found

    def _impersonation(self) -> str:
        return self._operation(None).expand(IMPERSONATION)

    async def _typed(self, kind: TurnKind, text: str, files: Sequence[str] = (), *, speaker: str | None = None) -> Turn:
        text += "".join(f"{{{{inlayed::{file}}}}}" for file in files)
        return await self._generate(kind, message=text, say_nothing=self._says_nothing(), speaker=speaker, typed=True)

    async def _run_command(self, kind: TurnKind, text: str) -> Turn | None:
        """Run a command line; None if a command is unknown, so that the line is a message."""
        asker = self._asker()
        if await self._operate(lambda operation: operation.command(text), asker):
            return await self._generate("send") if asker.wants_reply else Turn(kind=kind)
        return await self._lose_reply(text) if asker.wants_reply and self._quirks else None

    async def _lose_reply(self, text: str) -> Turn:
        """Store a text while a reply requested by a command is pending: RisuAI loses that reply."""
        turn = await self._copy()._generate("send")  # noqa: SLF001  # it is one of us
        await self._operate(lambda operation: operation.take_message(), message=text)
        return dataclasses.replace(turn, text="")

    async def _rerolled(self, kind: TurnKind) -> Turn:
        self.rerolls.begin(self.chat.messages)  # even without messages, as in RisuAI: the first choice is then empty
        if not self.chat.messages:
            return Turn(kind=kind)
        self._set_messages(taken_back(self.chat.messages))
        return await self._generate(kind)

    async def _generate(
        self,
        kind: TurnKind,
        *,
        message: str = "",
        say_nothing: bool = False,
        speaker: str | None = None,
        typed: bool = False,
    ) -> Turn:
        asker = self._asker()
        context = self._context(
            asker,
            message=message,
            say_nothing=say_nothing,
            speaker=speaker,
            generation_type="continue" if kind == "continue" else "normal",
        )
        send = Send(self._builder, context, session=self._session, stamp=self._turns)
        self._turns += 1
        await self._drive(send, asker, send.translate_input())
        try:
            taken = await asker.work(send.take_message)
        finally:
            self._apply(send)
        failure = None
        if taken:
            if typed:  # only now, as in RisuAI: earlier replies stay if an input trigger failed
                self.rerolls.tails = []  # the position stays until there is a reply, as in RisuAI
            before = len(self.chat.messages)
            try:
                failure = await self._drive(send, asker, send.generate())
            finally:
                self._apply(send)
                # RisuAI offers the raw text of a streamed reply as its only choice, which loses what scripts did to it.
                self.rerolls.offer({name: each for name, each in send.choices.items() if self._quirks or len(each) > 1})
                self.rerolls.push(self.chat.messages[before:])
                await self.host.checkpoint()
        self.error, self.warnings, self.emotions = send.error, tuple(send.warnings), tuple(send.emotions)
        self.suggestions, self.translations = tuple(send.suggestions), dict(send.translations)
        if send.error is not None:
            raise failure or send.error.cause or RequestFailedError(send.error.message)
        if failure is not None and asker.broken:
            raise failure
        return Turn(kind=kind, text=self._last_reply(), exchanges=tuple(asker.exchanges))

    async def _drive(self, send: Send, asker: Asker, steps: Generator[Ask, Answer, object]) -> ModelError | None:
        """Run a send in a thread with the host's model; return why the last request failed."""
        answer: Answer | None = None
        failure: ModelError | None = None
        while True:
            step = await asker.work(lambda answer=answer: advance(steps, answer))
            self._apply(send)
            if not isinstance(step, ModelRequest):
                return failure
            await self.host.checkpoint()
            answer, failure = await self._answer(step, steps, send, asker)

    async def _answer(
        self, request: ModelRequest, steps: Generator[Ask, Answer, object], send: Send, asker: Asker
    ) -> tuple[Answer, ModelError | None]:
        """Ask the host's model. The pieces of a stream go into the chat when it has ended, however it ended."""
        asker.heard, asker.unsent = [], ""
        try:
            try:
                reply = await self._with_tools(request, asker)
            finally:
                if asker.heard:
                    await asker.work(lambda: receive(steps, [*asker.heard, asker.unsent]))
                    self._apply(send)
        except RequestStoppedError:
            return Stopped(), None
        except ModelError as error:
            asker.broken = bool(asker.heard)
            if asker.heard:
                return Stopped(), error
            body = error.raw_body if request.stream and isinstance(error, HTTPError) else ""
            return Failure(str(error), body), error
        if reply.tool_calls and not self._runs_tools:
            return Stopped(), None
        if asker.heard:
            return Chunk(None), None
        return Reply(reply.text, reply.alternatives), None

    async def _with_tools(self, request: ModelRequest, asker: Asker) -> models.Reply:
        """Ask, and run requested tools until there are none. Marks in the text refer to them."""
        on_piece = asker.hear if request.streamable else None
        reply = await asker.ask(request.plan, on_piece)
        said, calls = reply.text, dict[str, Mapping[str, object]]()
        for _ in range(MAX_TOOL_ROUNDS):
            if not reply.tool_calls or not self._runs_tools:
                break
            for call in reply.tool_calls:
                outcome = await self.host.call_tool(call)
                name = made_id("tool call", self.chat.id, self._turns, len(self.tool_calls), call.id)
                self.tool_calls[name] = freeze_object({"call": call.to_dict(), "result": outcome.result})
                calls[name] = self.tool_calls[name]
                mark = f"{tool_mark(name)}\n\n"
                said, asker.unsent = said + mark, asker.unsent + mark
            reply = await asker.ask(request.plan.with_tool_calls(said, calls), on_piece)
            said += reply.text
        return dataclasses.replace(reply, text=said)

    async def _ask_outside_chat(self, kind: TurnKind, text: str) -> Turn:
        """Ask with a text after the prompt; the chat does not change."""
        asker = self._asker()
        context = self._context(asker)
        plan = await asker.work(lambda: self._builder.run(context))
        reply = await asker.ask(with_question(plan, kind, text), _ignore)
        return Turn(kind=kind, text=reply.text, exchanges=tuple(asker.exchanges))

    async def _operate(
        self, function: Callable[[Operation], _T], asker: Asker | None = None, *, message: str = ""
    ) -> _T:
        asker = asker or self._asker()
        operation = self._operation(asker, message=message)
        try:
            return await asker.work(lambda: function(operation))
        finally:
            self._apply(operation)
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
            "tool_calls": self.tool_calls,
            "inlays": self.inlays,
            "random": self._random or random_numbers(f"{self._seed} {self._turns}"),
        }
        if asker is not None:
            helpers = self._helpers(asker)
            inputs["trigger_host"] = asking_host(self._trigger_host, helpers)
            inputs["memory"] = memory_models(self._memory, helpers.summarize, self.settings)
        return self._builder.make_context(**{**inputs, **changes})

    def _helpers(self, asker: Asker) -> Helpers:
        return Helpers(asker, self._preset or self.settings.preset, self.settings)

    def _apply(self, operation: Operation) -> None:
        """Apply the changes of an operation so far."""
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


def _ignore(_: ReplyPiece) -> None:
    """Ignore pieces of an answer that is not stored; the host shows them."""
