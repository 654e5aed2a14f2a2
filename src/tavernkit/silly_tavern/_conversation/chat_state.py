"""The state of a chat between its turns, and how builds and texts use it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Protocol, TypeVar, Unpack, cast

from tavernkit._text.js_values import trim, trim_start
from tavernkit._values import Json, JsonObject, freeze_object, is_list, is_object, thaw_object
from tavernkit.prompt._inputs import GenerationType
from tavernkit.silly_tavern._builder import Builder
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.extension_prompts import stored_summary
from tavernkit.silly_tavern._chat.vector_storage import VectorResults
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._conversation import lines as chat_lines
from tavernkit.silly_tavern._conversation.known_lines import KnownLines
from tavernkit.silly_tavern._files.chat_file import ChatFile, ChatMetadata
from tavernkit.silly_tavern._group_activation import with_speaker
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.silly_tavern._macros.environment import MacroMemory, system_clock
from tavernkit.silly_tavern._scripts.prompt_scripts import PromptScripts
from tavernkit.silly_tavern._scripts.regex_scripts import RegexPlacement, RegexScripts
from tavernkit.silly_tavern._state import SillyTavernState
from tavernkit.stores._variables import InMemoryVariablesStore

T = TypeVar("T")

OF_ONE_RUN = "last_generation_type", "persona_in_chat", "summary", "vector_texts"
"""Parts of a snapshot that SillyTavern knows only as long as a chat is open: its files do not have them."""


class Work(Protocol):
    """Runs a function, here or in a thread, and waits for it."""

    async def __call__(self, function: Callable[[], T], /) -> T:
        """Return what the function returns."""
        ...


async def _work_here(function: Callable[[], T], /) -> T:
    return function()


class ChatState:
    """The state of one chat. Operations and turns change it; ``snapshot()`` has all of it."""

    def __init__(self, builder: Builder | None, chat: ChatFile, inputs: SillyTavernInputs) -> None:
        self.chat_id = inputs.pop("chat_id", None) or chat.name
        if builder is None:
            self.builder = Builder(**inputs)
        else:
            self.builder = builder.replace(**inputs) if inputs else builder
        self.clock: Callable[[], datetime] = inputs.get("clock", system_clock)
        self.user_avatar: str | None = None
        self.turn_lines: list[JsonObject] = [line.to_json() for line in chat.messages]
        """The lines, for code that changes only the first and the newest ones: those are always looked at."""
        self._unseen, self._shared = True, False
        """Any line may have changed since all were looked at; the application has lines, and may change them."""
        self._known = KnownLines()
        self._file: tuple[bytes, int, tuple[bytes, ...]] | None = None
        """The header and the lines' version that the file was made from, and the file in parts."""
        self._in_turn = False
        self._made_log: tuple[Sequence[ChatMessage], int, ChatLog] | None = None
        """The log of the chat, and the earlier messages and the version of the lines that it was made of."""
        self.before: Sequence[ChatMessage] = ()
        """Messages before the lines, which no operation changes, converted once by the application."""
        self.header: JsonObject = chat.metadata.to_json()
        """``chat_metadata`` without variables and the macros' state; see ``metadata``."""
        self.file_header = thaw_object(chat.header)
        self.earlier = chat.earlier
        """Lines of a very long chat that were not read: they stay in the file."""
        self.variables = _variables(self.header, thaw_object(self.context().settings.global_variables))
        self.memory = MacroMemory(chat_id_hash=_hash(self.header))
        self.branches: set[str] = {self.chat_id}
        self.ephemeral_injects: set[str] = set()
        """Texts of ``/inject`` that are removed after the next turn."""
        self.runs_tools = True
        """Run the tools that a reply calls, and ask again; otherwise the turn ends with the calls."""
        self.cleans_up = True
        """Clean replies up before they are stored; otherwise only regex scripts run."""
        self.search: Callable[[ChatPlan], VectorResults] | None = None
        """Runs the searches of Vector Storage."""
        self.work: Work = _work_here
        """Runs builds and other long work, perhaps in a thread."""
        self.speakers: tuple[str, ...] = ()
        """The speakers of the group's current or last round."""
        self.round = chat_lines.last_round(self.turn_lines)
        """Number of the last round of a group."""
        self.find_summary()

    @property
    def lines(self) -> list[JsonObject]:
        """The lines. The caller may change any of them, so the next turn looks at all."""
        self._unseen = True
        return self.turn_lines

    @lines.setter
    def lines(self, lines: list[JsonObject]) -> None:
        self._unseen, self.turn_lines = True, lines

    def share_lines(self) -> list[JsonObject]:
        """Return the lines to the application, which may change them whenever it likes."""
        self._shared = True
        return self.turn_lines

    def twin(self) -> ChatState:
        """Return a copy for another chat, which gets its lines by ``restore()``."""
        made = copy.copy(self)
        made._known, made._file, made._made_log = KnownLines(), None, None  # noqa: SLF001  # it is one of us
        return made

    @property
    def metadata(self) -> JsonObject:
        """``chat_metadata`` in file format."""
        found = dict(self.header)
        local = self.variables.to_dict().get("local")
        if local is not None:
            found["variables"] = local
        if self.memory.chat_id_hash is not None:
            found["chat_id_hash"] = self.memory.chat_id_hash
        return found

    @property
    def file(self) -> ChatFile:
        """The chat as a file."""
        return ChatFile(
            messages=tuple(ChatMessage.from_json(thaw_object(line)) for line in self.turn_lines),
            metadata=ChatMetadata.from_json(self.metadata),
            header=freeze_object(self.file_header),
            name=self.chat_id,
            earlier=self.earlier,
        )

    def file_parts(self, *, look: bool = True) -> tuple[bytes, ...]:
        """Return the chat's file in parts, without converting each line to a message.

        Args:
            look: Check the lines for changes first; otherwise use those of the last snapshot.
        """
        header = ChatFile(
            metadata=ChatMetadata.from_json(self.metadata),
            header=freeze_object(self.file_header),
        )
        first = header.first_line()
        known = self._known_lines() if look else self._known
        if self._file is None or self._file[:2] != (first, known.version):
            parts = [first, *((b"\n", self.earlier) if self.earlier else ())]
            if known.copies:
                parts += b"\n", *known.written()
            self._file = first, known.version, tuple(parts)
        return self._file[2]

    @contextmanager
    def turn(self) -> Generator[None]:
        """Run a turn, which changes only the first and the newest lines.

        Others are checked once, and only if somebody may have changed them.
        """
        if self._in_turn:
            yield
            return
        if self._unseen or self._shared:
            self.look_at_lines()
        self._unseen, self._in_turn = False, True
        try:
            yield
        finally:
            self._in_turn = False

    def look_at_lines(self) -> None:
        """Check every line for changes."""
        self._known.see(self.turn_lines, in_turn=False)

    def _known_lines(self) -> KnownLines:
        self._known.see(self.turn_lines, in_turn=self._in_turn)
        return self._known

    def _log(self) -> ChatLog:
        """Return the chat as builds take it; a turn makes several contexts of the same lines."""
        known = self._known_lines()
        made = self._made_log
        if made is None or made[0] is not self.before or made[1] != known.version:
            made = self._made_log = self.before, known.version, ChatLog.of(self.before, known.messages())
        return made[2]

    def snapshot(self) -> JsonObject:
        """Return everything as JSON. Read-only: snapshots share unchanged lines."""
        group = self.context().group
        found: JsonObject = {
            "chat_id": self.chat_id,
            "header": self.file_header,
            "chat_metadata": self.metadata,
            "global_variables": self.variables.to_dict().get("global", {}),
            **self.run(),
            "branches": [*sorted(self.branches)],
            "round": self.round,
        }
        if self.ephemeral_injects:
            found["ephemeral_injects"] = [*sorted(self.ephemeral_injects)]
        if group is not None:
            found["muted"] = [*group.disabled_members]
        copied = thaw_object(found)
        copied["lines"] = cast("list[Json]", self._known_lines().copies)
        return copied

    def run(self) -> JsonObject:
        """Return the parts ``OF_ONE_RUN`` of a snapshot."""
        memory = self.memory
        texts: list[Json] = [*memory.vector_texts]
        found = memory.last_generation_type, memory.persona_in_chat, memory.summary, texts
        return dict(zip(OF_ONE_RUN, found, strict=True))

    def find_summary(self) -> None:
        """Look for a stored summary, as SillyTavern does when it opens a chat; later turns do not look again."""
        newest_first = chain(
            (object_or_empty(line.get("extra")) for line in reversed(self.turn_lines)),
            (message.extra for message in reversed(self.before)),
        )
        self.memory.summary = stored_summary(islice(newest_first, 1, None))

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Go back to a snapshot; missing parts become empty."""
        saved = thaw_object(snapshot)
        self.chat_id = str(saved.get("chat_id") or "")
        self.file_header = object_or_empty(saved.get("header"))
        self.header = object_or_empty(saved.get("chat_metadata"))
        lines = saved.get("lines")
        self.lines = [line for line in lines if is_object(line)] if is_list(lines) else []
        self.variables = _variables(self.header, object_or_empty(saved.get("global_variables")))
        self.memory = MacroMemory(
            chat_id_hash=_hash(self.header),
            last_generation_type=str(saved.get("last_generation_type") or ""),
            persona_in_chat=str(saved.get("persona_in_chat") or ""),
        )
        texts, summary = saved.get("vector_texts"), saved.get("summary")
        self.memory.vector_texts = tuple(each for each in texts if is_object(each)) if is_list(texts) else ()
        if isinstance(summary, str):
            self.memory.summary = summary
        else:
            self.find_summary()
        ephemeral = saved.get("ephemeral_injects")
        self.ephemeral_injects = {str(key) for key in ephemeral} if is_list(ephemeral) else set()
        names, number, muted = saved.get("branches"), saved.get("round"), saved.get("muted")
        self.branches = {str(name) for name in names} if is_list(names) else {self.chat_id}
        self.round = number if isinstance(number, int) else chat_lines.last_round(self.turn_lines)
        if is_list(muted):
            self.change_group(disabled_members=tuple(str(each) for each in muted))

    def take_lines(
        self, lines: list[JsonObject], copies: Sequence[JsonObject], messages: Sequence[ChatMessage]
    ) -> None:
        """Take the lines of a chat whose messages an application has made already.

        Args:
            lines: The lines, which belong to the chat now.
            copies: Copies of the lines, which are never changed.
            messages: The messages made from them.
        """
        self.lines = lines
        self.round = self.round or chat_lines.last_round(lines)
        self._known.know(lines, copies, messages)

    def change_group(self, **changes: object) -> None:
        """Change settings of the group."""
        group = self.context().group
        if group is not None:
            self.builder = self.builder.replace(group=group.replace(**changes))

    def context(self, **inputs: Unpack[SillyTavernInputs]) -> SillyTavernContext:
        """Make the context of a build; without inputs, the builder's own, cached."""
        return self.builder.make_context(**inputs) if inputs else self.builder.own_context

    def inputs(
        self,
        generation_type: GenerationType,
        text: str = "",
        speaker: str | None = None,
        options: SillyTavernInputs | None = None,
    ) -> SillyTavernInputs:
        """Return the inputs that come from the chat."""
        found: SillyTavernInputs = {
            "history": self._log(),
            "chat_metadata": self.metadata,
            "chat_id": self.chat_id,
            "variables": self.variables,
            "macro_memory": self.memory,
            "generation_type": generation_type,
            "message": text,
        }
        if speaker is not None:
            found["speaker"] = speaker
        return found if options is None else found | options

    def build(
        self,
        generation_type: GenerationType,
        text: str = "",
        speaker: str | None = None,
        options: SillyTavernInputs | None = None,
    ) -> ChatPlan:
        """Build a prompt. Nothing changes."""
        inputs = self.inputs(generation_type, text, speaker, options)
        plan = self.builder.build(**inputs)
        if self.search is None or not plan.vector_calls:
            return plan
        return self.builder.build(**inputs | {"vectors": self.search(plan)})

    @contextmanager
    def expanding(
        self, generation_type: GenerationType = "normal", *, speaker: str | None = None
    ) -> Generator[SillyTavernState]:
        """Yield a workspace for expanding texts of the current chat; writes of macros are kept."""
        context = self.context(**self.inputs(generation_type))
        if context.group is not None and speaker is not None and speaker in context.members:
            context = with_speaker(context.replace(speaker=speaker), _ignore)
        state = self.builder.make_state(context)
        state.scripts = PromptScripts.of(context.regex_scripts, state.macros, state.warn, state.services.scripts)
        yield state
        state.variables.changes().apply(self.variables)
        self.memory = state.memory

    def show_first(self) -> None:
        """Permanently expand the first message, as SillyTavern does whenever it is shown."""
        if not self.turn_lines or chat_lines.is_user(self.turn_lines[0]) or chat_lines.is_hidden(self.turn_lines[0]):
            return
        line = self.turn_lines[0]
        with self.expanding() as state:
            line["mes"] = state.macros(chat_lines.text_of(line))
        # One of several swipes keeps its macros: they run again whenever it is shown.
        if len(chat_lines.swipes_of(line)) == 1:
            chat_lines.swipes_of(line)[0] = line["mes"]

    def take_reasoning(self, line: JsonObject) -> None:
        """Move a marked block at the start of a text to the reasoning field, if the settings say so.

        The scripts for reasoning run on it, as on the reasoning that an API gives.
        """
        settings = self.context().settings.power_user.reasoning
        extra = chat_lines.extra_of(line)
        found = (
            split_reasoning(chat_lines.text_of(line), settings.prefix, settings.suffix) if settings.auto_parse else None
        )
        if found is not None and not extra.get("reasoning"):  # a line with other reasoning keeps the block in its text
            reasoning, line["mes"] = found
            with self.expanding(speaker=chat_lines.speaker_of(line)) as workspace:
                reasoning = scripted(workspace, reasoning, RegexPlacement.REASONING)
            extra |= {"reasoning": reasoning, "reasoning_type": "parsed"}

    def now(self) -> str:
        """Return the time in the format of chat files."""
        return self.clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def scripted(
    state: SillyTavernState,
    text: str,
    placement: RegexPlacement,
    *,
    is_edit: bool = False,
    character: str | None = None,
) -> str:
    """Run the regex scripts that change a text before it is stored.

    Args:
        state: The workspace.
        text: The text.
        placement: What kind of text it is.
        is_edit: The user has edited it.
        character: The speaker, if not the current character.
    """
    scripts = state.context.regex_scripts or RegexScripts()
    return scripts.apply(
        text, placement, expand=state.macros.in_script, is_edit=is_edit, character=character, warn=state.warn
    )


def split_reasoning(text: str, prefix: str, suffix: str) -> tuple[str, str] | None:
    """Return a marked block at the very start of a text and what follows it; None if there is none."""
    start = trim_start(text)
    if not prefix or not suffix or not start.startswith(prefix):
        return None
    reasoning, closed, rest = start[len(prefix) :].partition(suffix)
    return (trim(reasoning), trim_start(rest)) if closed else None


def object_or_empty(value: Json) -> JsonObject:
    """Return a JSON object; anything else counts as an empty one."""
    return value if is_object(value) else {}


def _variables(header: JsonObject, global_variables: JsonObject) -> InMemoryVariablesStore:
    scopes = {"global": global_variables} if global_variables else {}
    local = header.pop("variables", None)
    return InMemoryVariablesStore(scopes | {"local": local} if is_object(local) else scopes)


def _hash(header: JsonObject) -> int | str | None:
    found = header.pop("chat_id_hash", None)
    return found if isinstance(found, (int, str)) else None


def _ignore(_message: str) -> None:
    """Ignore a warning: builds give the same warning."""
