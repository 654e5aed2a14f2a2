"""What a text is expanded against."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType

from tavernkit._dataclass import dataclass, replaced
from tavernkit._macros import BuildBudget
from tavernkit._values import FrozenJson, Json, JsonObject
from tavernkit.cards._character import Character
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._group import GroupChat
from tavernkit.silly_tavern._templates.templates import (
    ContextTemplate,
    InstructTemplate,
    ReasoningSettings,
    SystemPrompt,
)
from tavernkit.stores._variables import InMemoryVariablesStore, VariablesStore


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsNotes:
    """The author's notes: of the chat, of the character, and the default one."""

    chat: str = ""
    character: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionSettings:
    """Values of the expressions extension. ``last`` maps a character's name to its latest sprite label."""

    fallback: str = ""
    show_emoji: bool = False
    labels: Sequence[str] = ()
    last: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionValues:
    """Values of macros from SillyTavern's bundled extensions."""

    enabled: Sequence[str] = ()
    summary: str | None = ""
    """The user's own summary; None if the extension is disabled, which also removes its macro."""
    image_prefix: str = ""
    image_negative_prefix: str = ""
    expressions: ExpressionSettings = field(default_factory=ExpressionSettings)


Clock = Callable[[], datetime]
"""Returns the time; it must have a time zone."""

TEXT_COMPLETION_API = "textgenerationwebui"
"""The ``main_api`` for which ``{{banned}}`` records words."""

CHAT_COMPLETION_API = "openai"
"""The ``main_api`` of chat completion."""

NO_INSTRUCT = InstructTemplate.off()
NO_SYSTEM_PROMPT = SystemPrompt(enabled=False)
NO_SEPARATORS = ContextTemplate(example_separator="", chat_start="")
NO_REASONING_MARKS = ReasoningSettings(prefix="", suffix="", separator="")


@dataclass(slots=True, kw_only=True)
class MacroMemory:
    """The macros' state of a chat besides variables. The application keeps one per chat; expansion writes to it."""

    chat_id_hash: int | float | str | None = None
    banned_words: list[str] = field(default_factory=list[str])
    last_generation_type: str = ""
    persona_in_chat: str = ""
    """The persona description that the last build put at a depth: SillyTavern's next build scans it for lore keys."""
    summary: str | None = None
    """The summary that was stored in the chat when it was opened; None if nobody has looked yet."""
    vector_texts: Sequence[JsonObject] = ()
    """The texts of Vector Storage in the last prompt: quiet prompts, which search nothing, have them too."""

    def copy(self) -> MacroMemory:
        """Return an independent copy."""
        return dataclasses.replace(self, banned_words=list(self.banned_words))

    def generation_started(self, kind: str | None = None, *, dry_run: bool = False) -> None:
        """Record the start of a generation, for ``{{lastGenerationType}}``; dry runs do not count."""
        if not dry_run:
            self.last_generation_type = kind or "normal"

    def chat_changed(self) -> None:
        """Drop the state of the previous chat."""
        self.chat_id_hash = None
        self.last_generation_type = ""
        self.persona_in_chat = ""
        self.summary = None
        self.vector_texts = ()


def system_clock() -> datetime:
    """Return the real time; use another clock for repeatable results."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroEnvironment:
    """Everything that macros read.

    The two things they write are ``variables`` and ``memory``. ``random`` returns numbers from 0 up to but not
    including 1; pass ``random.Random(seed).random`` for repeatable results. Overrides of the chat
    (``scenario_override`` and so on) replace the card's texts if they are not empty.

    >>> MacroEnvironment(user_name="Ann", character_name="Bel").character_name
    'Bel'
    """

    user_name: str = "User"
    """The user's name."""
    character_name: str = ""
    """The character's name."""
    character: Character | None = None
    """The card; None if there is none."""
    persona: str = ""
    """The description of the user's persona."""
    group: GroupChat | None = None
    """The group that talks, if it is a group chat."""

    chat: Sequence[ChatMessage] = ()
    """The lines of the chat, oldest first."""
    chat_id: str | None = None
    """The chat's file name without its extension."""
    main_chat: FrozenJson = None
    """The chat that this one branched from."""
    pick_reroll_seed: int | float | str | None = None
    """Changes the results of ``{{pick}}`` in this chat."""
    scenario_override: str = ""
    examples_override: str = ""
    """Replaces the card's example dialogue, if not empty."""
    system_prompt_override: str = ""
    """Replaces the card's system prompt, if not empty."""
    first_included_message_id: FrozenJson = None
    """The index of the first message that the last prompt contained."""
    first_displayed_message_id: int | None = None
    """The index of the first message on the screen."""
    variables: VariablesStore = field(default_factory=InMemoryVariablesStore)
    memory: MacroMemory = field(default_factory=MacroMemory)

    main_api: str = CHAT_COMPLETION_API
    """The kind of API: ``openai`` for chat completion, ``textgenerationwebui``, ``kobold`` or ``novel`` for text."""
    model: str = ""
    """The model's name."""
    max_context: int = 8192
    """Tokens of the context, the reply included."""
    max_response: int = 512
    """Tokens kept for the reply."""
    input: str = ""
    """The text in the input box."""
    is_mobile: bool = False
    """True if the page runs on a phone."""
    outlets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Texts for ``{{outlet::name}}``, by name."""

    instruct: InstructTemplate = NO_INSTRUCT
    """The instruct template."""
    system_prompt: SystemPrompt = NO_SYSTEM_PROMPT
    """The system prompt of text completion."""
    context: ContextTemplate = NO_SEPARATORS
    """The context template."""
    reasoning: ReasoningSettings = NO_REASONING_MARKS
    """The reasoning template."""
    notes: AuthorsNotes = field(default_factory=AuthorsNotes)
    """The author's note and its defaults."""
    extensions: ExtensionValues = field(default_factory=ExtensionValues)
    """Values of extensions that macros read, such as the summary."""
    prefer_character_prompt: bool = True
    """True if the card's system prompt replaces the main prompt."""
    prefer_character_jailbreak: bool = True
    """True if the card's post-history instructions replace the preset's."""
    collapse_newlines: bool = False
    """True to collapse several line breaks into one."""

    clock: Clock = system_clock
    """Returns the current time."""
    timezone: tzinfo = UTC
    """The time zone that date macros use."""
    random: Callable[[], float] = random.random
    budget: BuildBudget | None = field(default=None, repr=False, compare=False)
    """The shared budget of all texts of a build; None for no limit."""

    _places: dict[str, tuple[int, object, int | None]] = field(
        default_factory=dict[str, tuple[int, object, int | None]], init=False, repr=False, compare=False
    )

    def place_in_chat(self, name: str, find: Callable[[], int | None]) -> int | None:
        """Return the index of a line of the chat, cached until the chat continues.

        Args:
            name: The cache key.
            find: Finds the line.
        """
        chat = self.chat
        length, last = len(chat), chat[-1] if chat else None
        known = self._places.get(name)
        if known is None or known[0] != length or known[1] is not last:
            known = self._places[name] = (length, last, find())
        return known[2]

    def replace(self, **changes: object) -> MacroEnvironment:
        """Return a changed copy; variables and memory stay shared unless they are changed too."""
        return replaced(self, **changes)

    def get_var(self, name: str, scope: str = "local") -> Json:
        """Read a variable; None if it is not set.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        return self.variables.get(name, scope)

    def set_var(self, name: str, value: Json, scope: str = "local") -> None:
        """Write a variable.

        Args:
            name: The variable.
            value: Its value.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        self.variables.set(name, value, scope)

    def has_var(self, name: str, scope: str = "local") -> bool:
        """Return True if a variable is set.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        return self.variables.has(name, scope)

    def now(self) -> datetime:
        """The time in the user's zone."""
        return self.clock().astimezone(self.timezone)
