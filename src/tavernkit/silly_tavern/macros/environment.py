"""What a text is expanded against."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType
from typing import Protocol

from tavernkit.silly_tavern.context_template.template import ContextTemplate
from tavernkit.silly_tavern.instruct.system_prompt import SystemPrompt
from tavernkit.silly_tavern.instruct.template import InstructTemplate
from tavernkit.silly_tavern.macros.settings import AuthorsNotes, ExtensionValues
from tavernkit.silly_tavern.reasoning import ReasoningSettings
from tavernkit.stores.variables import InMemoryVariablesStore, VariablesStore
from tavernkit.values import FrozenJson, FrozenObject, Json, is_mapping, is_sequence

Clock = Callable[[], datetime]
"""Tells the time; the result must know its zone."""

TEXT_COMPLETION_API = "textgenerationwebui"
"""The ``main_api`` for which ``{{banned}}`` records words."""

CHAT_COMPLETION_API = "openai"
"""The ``main_api`` of chat completion."""

NO_INSTRUCT = InstructTemplate.off()
NO_SYSTEM_PROMPT = SystemPrompt(enabled=False)
NO_SEPARATORS = ContextTemplate(example_separator="", chat_start="")
NO_REASONING_MARKS = ReasoningSettings(prefix="", suffix="", separator="")


class ChatLine(Protocol):
    """A message of the chat as macros read it; a line of a SillyTavern chat file has these names."""

    @property
    def mes(self) -> str:
        """The text."""
        ...

    @property
    def is_user(self) -> bool:
        """Whether the user wrote it."""
        ...

    @property
    def is_system(self) -> bool:
        """Whether it is hidden from prompts."""
        ...

    @property
    def send_date(self) -> str | int | float | None:
        """When it was sent, in any of SillyTavern's formats."""
        ...

    @property
    def swipes(self) -> Sequence[str] | None:
        """Its alternatives."""
        ...

    @property
    def swipe_id(self) -> int | None:
        """Which alternative is shown."""
        ...

    @property
    def extra(self) -> FrozenObject:
        """What extensions stored with it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFields:
    """The fields of a character card that macros read, as written in the card."""

    description: str = ""
    personality: str = ""
    scenario: str = ""
    first_mes: str = ""
    alternate_greetings: Sequence[str] = ()
    mes_example: str = ""
    creator_notes: str = ""
    system_prompt: str = ""
    post_history_instructions: str = ""
    character_version: str = ""
    depth_prompt: str = ""
    image_prefix: str = ""
    image_negative_prefix: str = ""

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> CardFields:
        """Read the ``data`` object of a V2 card; values of a wrong type count as missing."""
        extensions = _mapping(data.get("extensions"))
        image = _mapping(extensions.get("sd_character_prompt"))
        greetings = data.get("alternate_greetings")
        return cls(
            **{name: _text(data.get(name)) for name in _TEXT_FIELDS},
            alternate_greetings=tuple(_text(each) for each in greetings) if is_sequence(greetings) else (),
            depth_prompt=_text(_mapping(extensions.get("depth_prompt")).get("prompt")),
            image_prefix=_text(image.get("positive")),
            image_negative_prefix=_text(image.get("negative")),
        )


_TEXT_FIELDS = (
    "description",
    "personality",
    "scenario",
    "first_mes",
    "mes_example",
    "creator_notes",
    "system_prompt",
    "post_history_instructions",
    "character_version",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group chat whose card is known."""

    name: str
    muted: bool = False
    card: CardFields = field(default_factory=CardFields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group chat. With ``join_cards`` the members' cards are joined, muted ones only with ``join_muted``."""

    members: Sequence[GroupMember] = ()
    join_cards: bool = False
    join_muted: bool = False
    join_prefix: str = ""
    join_suffix: str = ""


@dataclass(slots=True, kw_only=True)
class MacroMemory:
    """What macros remember of a chat besides variables. The application keeps one a chat; expansion writes to it."""

    chat_id_hash: int | float | str | None = None
    banned_words: list[str] = field(default_factory=list[str])
    last_generation_type: str = ""

    def generation_started(self, kind: str | None = None, *, dry_run: bool = False) -> None:
        """Note the start of a generation, for ``{{lastGenerationType}}``; a dry run does not count."""
        if not dry_run:
            self.last_generation_type = kind or "normal"

    def chat_changed(self) -> None:
        """Forget what belonged to the chat that was open before."""
        self.chat_id_hash = None
        self.last_generation_type = ""


def system_clock() -> datetime:
    """Tell the real time; pass another clock where results must be the same each time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroEnvironment:
    """Everything that macros read.

    The two things they write are ``variables`` and ``memory``. ``random`` gives numbers from 0 up to but not
    including 1; pass ``random.Random(seed).random`` where results must be the same each time. ``overrides`` of the
    chat (``scenario_override`` and so on) win over the card when they are not empty.

    >>> MacroEnvironment(user_name="Ann", character_name="Bel").character_name
    'Bel'
    """

    user_name: str = "User"
    character_name: str = ""
    character: CardFields | None = None
    persona: str = ""
    group: Group | None = None

    chat: Sequence[ChatLine] = ()
    chat_id: str | None = None
    main_chat: str | None = None
    pick_reroll_seed: int | float | str | None = None
    scenario_override: str = ""
    examples_override: str = ""
    system_prompt_override: str = ""
    first_included_message_id: FrozenJson = None
    first_displayed_message_id: int | None = None
    variables: VariablesStore = field(default_factory=InMemoryVariablesStore)
    memory: MacroMemory = field(default_factory=MacroMemory)

    main_api: str = CHAT_COMPLETION_API
    model: str = ""
    max_context: int = 8192
    max_response: int = 512
    input: str = ""
    is_mobile: bool = False
    outlets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    instruct: InstructTemplate = NO_INSTRUCT
    system_prompt: SystemPrompt = NO_SYSTEM_PROMPT
    context: ContextTemplate = NO_SEPARATORS
    reasoning: ReasoningSettings = NO_REASONING_MARKS
    notes: AuthorsNotes = field(default_factory=AuthorsNotes)
    extensions: ExtensionValues = field(default_factory=ExtensionValues)
    prefer_character_prompt: bool = True
    prefer_character_jailbreak: bool = True
    collapse_newlines: bool = False

    clock: Clock = system_clock
    timezone: tzinfo = UTC
    random: Callable[[], float] = random.random

    def replace(self, **changes: object) -> MacroEnvironment:
        """Return a changed copy; variables and memory stay shared unless they are changed too."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def get_var(self, name: str, scope: str = "local") -> Json:
        """Read a variable; nothing when it is not set."""
        return self.variables.get(name, scope)

    def set_var(self, name: str, value: Json, scope: str = "local") -> None:
        """Write a variable."""
        self.variables.set(name, value, scope)

    def has_var(self, name: str, scope: str = "local") -> bool:
        """Tell whether a variable is set."""
        return self.variables.has(name, scope)

    def now(self) -> datetime:
        """The time in the user's zone."""
        return self.clock().astimezone(self.timezone)


def _mapping(value: object) -> Mapping[str, object]:
    return value if is_mapping(value) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
