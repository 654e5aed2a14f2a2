"""One chat over many turns, in SillyTavern's format."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Unpack

from tavernkit._arguments import require
from tavernkit._text.js_values import trim
from tavernkit._turns import Host, Turn, TurnKind
from tavernkit._values import JsonObject, is_object
from tavernkit.errors import ConfigError
from tavernkit.prompt._inputs import GenerationType
from tavernkit.silly_tavern._builder import Builder
from tavernkit.silly_tavern._chat.vector_storage import VectorResults
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._conversation import lines as chat_lines
from tavernkit.silly_tavern._conversation.chat_state import ChatState, Work
from tavernkit.silly_tavern._conversation.edits import EditableChat, remove_last_round
from tavernkit.silly_tavern._conversation.generation import Generation
from tavernkit.silly_tavern._conversation.greetings import greet_again, open_chat
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.stores._variables import InMemoryVariablesStore

_KEPT_BY_THE_CHAT: Final = "history", "message", "chat_metadata", "variables", "macro_memory", "generation_type"


class Chat(EditableChat):
    """A chat with its state: lines, header, variables, timed lore, and the macros' state.

    Takes the inputs of a ``Builder``, without those that come from the chat itself (``history``, ``message``,
    ``chat_metadata``, ``variables``). Call ``open()`` once before the first operation.

    Args:
        host: Asks the model, runs tools and saves.
        chat: The chat so far; a new one by default.
        builder: Builds the prompts; by default made from the other inputs.
        user_avatar: The file name of the persona in use, if it is one of the user's personas.
        run_tools: Run the tools that replies call; otherwise a turn ends with the calls.
        clean_up: Clean replies up before they are stored; otherwise only regex scripts run.
        work: Runs builds, for programs that must not block; by default they run directly.
        search: Runs a plan's ``vector_calls``, if Vector Storage is on; then each prompt is built twice.
        inputs: Inputs of every build.

    Raises:
        ConfigError: An input is given that belongs to the chat itself, such as the history.
    """

    def __init__(
        self,
        host: Host,
        *,
        chat: ChatFile | None = None,
        builder: Builder | None = None,
        user_avatar: str | None = None,
        run_tools: bool = True,
        clean_up: bool = True,
        work: Work | None = None,
        search: Callable[[ChatPlan], VectorResults] | None = None,
        **inputs: Unpack[SillyTavernInputs],
    ) -> None:
        wrong = [name for name in _KEPT_BY_THE_CHAT if name in inputs]
        if wrong:
            raise ConfigError(
                f"a Chat keeps {', '.join(wrong)} itself: pass the chat so far as chat=ChatFile.load(path)"
            )
        require("host", host, Host)
        require("chat", chat, ChatFile | None)
        self.host = host
        super().__init__(ChatState(builder, chat if chat is not None else ChatFile(), inputs))
        self.state.user_avatar = user_avatar
        self.state.runs_tools, self.state.cleans_up = run_tools, clean_up
        self.state.search = search
        if work is not None:
            self.state.work = work

    @property
    def lines(self) -> Sequence[JsonObject]:
        """The lines, in the format of chat files."""
        return self.state.share_lines()

    @property
    def metadata(self) -> JsonObject:
        """The chat's header: author's note, variables, timed lore and so on."""
        return self.state.metadata

    @property
    def variables(self) -> InMemoryVariablesStore:
        """Variables of the chat (scope ``local``) and of all chats (``global``)."""
        return self.state.variables

    @property
    def chat_id(self) -> str:
        """The name of the chat's file, without its extension."""
        return self.state.chat_id

    @property
    def file(self) -> ChatFile:
        """The chat as a file."""
        return self.state.file

    def snapshot(self) -> JsonObject:
        """Return everything that a turn may change, as JSON."""
        return self.state.snapshot()

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Go back to a snapshot."""
        self.state.restore(snapshot)

    def change(self, **inputs: Unpack[SillyTavernInputs]) -> None:
        """Change inputs of the builds from now on: the preset, settings, books, tools and so on."""
        self.state.builder = self.state.builder.replace(**inputs)

    def change_user(self, user_avatar: str | None = None, /, **inputs: Unpack[SillyTavernInputs]) -> None:
        """Talk as another persona. An unanswered greeting is written again.

        Args:
            user_avatar: The persona's file name.
            inputs: The inputs that come with it: ``user``, ``persona``, ``persona_books``.
        """
        self.state.user_avatar = user_avatar
        self.change(**inputs)
        if self._is_untouched and not chat_lines.is_user(self.state.turn_lines[0]):
            greet_again(self.state)

    # Opening

    def open(self, *, greeting: int = 0) -> None:
        """Open the chat: fill in the header, add the greeting if the chat is empty, and show the first message.

        Showing the first message expands its macros for good; other messages keep theirs.

        Args:
            greeting: Which greeting a new chat begins with: 0 is the first message, 1 the first alternate.
        """
        open_chat(self.state, greeting)

    # Turns

    async def send(self, text: str = "", *, speaker: str | None = None) -> Turn:
        """Store the user's message and ask for a reply; in a group, for one of each speaker whose turn it is.

        Args:
            text: The message. A slash command is run instead.
            speaker: The member of the group who answers, even if muted.
        """
        if trim(text).startswith("/"):
            return await self.run_command(text)
        if not text and self._continues_on_send():
            return await self.continue_reply()
        return await self._turn("send", "normal", text, speaker=speaker)

    async def answer(self, *, speaker: str | None = None) -> Turn:
        """Ask for a reply to the chat as it is.

        Args:
            speaker: The member of the group who answers, even if muted.
        """
        # The input box is empty, and the preset's text for an empty one is not sent.
        return await self._turn("send", "normal", speaker=speaker, options={"tool_recursion": 1})

    async def regenerate(self) -> Turn:
        """Ask for the last reply (in a group: the last round) again."""
        if self.state.context().group is None:
            return await self._turn("regenerate", "regenerate")
        self.remove_last_round()
        return await self._turn("regenerate", "normal")

    async def swipe(self, direction: Literal["left", "right"] = "right") -> Turn:
        """Show the next swipe; right of the newest one, ask for another reply."""
        turn = Turn(kind="swipe")
        lines = self.state.turn_lines
        if not lines or not chat_lines.can_swipe(lines[-1]):
            return turn
        line = lines[-1]
        chat_lines.show(line)
        swipes, at = chat_lines.swipes_of(line), chat_lines.swipe_id_of(line)
        untouched = self._is_untouched
        step = 1 if direction == "right" else -1
        # A greeting that nobody has answered and a hidden line never get another swipe: theirs are a circle.
        if direction == "right" and at + 1 >= len(swipes) and not untouched and not chat_lines.is_hidden(line):
            return await self._turn("swipe", "swipe")
        self.show_swipe((at + step) % len(swipes))
        await self.host.checkpoint()
        return dataclasses.replace(turn, text=chat_lines.text_of(line))

    async def new_swipe(self) -> Turn:
        """Ask for another swipe of the last reply, whichever is shown."""
        lines = self.state.turn_lines
        if not lines or not chat_lines.can_swipe(lines[-1]):
            return Turn(kind="swipe")
        chat_lines.show(lines[-1])
        return await self._turn("swipe", "swipe")

    async def continue_reply(self, text: str = "") -> Turn:
        """Let the model continue the last message; a text is sent first, and is then continued."""
        return await self._turn("continue", "continue", text)

    async def impersonate(self) -> Turn:
        """Let the model write the user's next message. It is returned, not stored."""
        return await self._turn("impersonate", "impersonate")

    async def quiet(self, prompt: str, **options: Unpack[SillyTavernInputs]) -> Turn:
        """Ask something outside the chat. The answer is returned, not stored.

        Args:
            prompt: What to ask.
            options: Inputs of this build only: ``quiet_to_loud``, ``quiet_name``, ``response_length``…
        """
        options["quiet_prompt"] = prompt
        return await self._turn("quiet", "quiet", options=options)

    async def speak(self, member: str) -> Turn:
        """Let this member of the group (name or file) speak next, even if muted.

        Raises:
            ConfigError: This is not a group, or it has no such member.
        """
        if self.state.context().group is None:
            raise ConfigError("this is not a group: only members of a group are told to speak", code="NO_GROUP")
        return await self._turn("speak", "normal", speaker=member)

    def preview(self, text: str = "") -> ChatPlan:
        """Return the prompt that ``send()`` would send. Nothing changes."""
        return self.state.build("continue" if not text and self._continues_on_send() else "normal", text)

    async def run_command(self, text: str) -> Turn:
        """Run a slash command. The turn's text is its result."""
        from tavernkit.silly_tavern._conversation.commands import run_command

        return await run_command(self, text)

    def _continues_on_send(self) -> bool:
        """Return True if an empty message continues the last reply, as the settings say."""
        context, lines = self.state.context(), self.state.turn_lines
        if context.group is not None or not context.settings.power_user.continue_on_send or not lines:
            return False
        return not chat_lines.is_user(lines[-1]) and not chat_lines.is_hidden(lines[-1])

    async def _turn(
        self,
        kind: TurnKind,
        generation_type: GenerationType,
        text: str = "",
        *,
        speaker: str | None = None,
        options: SillyTavernInputs | None = None,
    ) -> Turn:
        """Run one turn: for a single character once, in a group once for each speaker."""
        state = self.state
        state.header["tainted"] = True  # even by impersonate and quiet, which store nothing
        generation = Generation(state, self.host, kind, options)
        with state.turn():
            if state.context().group is None:
                await generation.generate(generation_type, text, None)
            else:
                await generation.round(generation_type, text, speaker)
            self._forget_ephemeral()
            await self.host.checkpoint()
        return generation.result()

    def remove_last_round(self) -> None:
        """Remove the replies at the end that belong to one round of a group."""
        remove_last_round(self.state.lines)

    def _forget_ephemeral(self) -> None:
        injects = self.state.header.get("script_injects")
        if is_object(injects):
            for key in self.state.ephemeral_injects:
                injects.pop(key, None)
        self.state.ephemeral_injects.clear()
