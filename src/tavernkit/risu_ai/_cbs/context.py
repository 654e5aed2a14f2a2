"""The context of RisuAI's texts: character, chat, user, settings, device, clock and dice, frozen and typed.

Every RisuAI engine takes a ``CBSContext``. Fields have defaults, so ``CBSContext(char="Bel", user="Ann")`` is enough to
start with. A field that is ``None`` is missing
for RisuAI, which is not the same as empty: functions that read it fail and their tag stays in the text.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Literal, TypedDict, Unpack

from tavernkit._dataclass import copy_with, dataclass
from tavernkit._macros import BuildBudget
from tavernkit._text.js_values import to_string
from tavernkit._values import Json
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuModule, RisuPersona, RisuSettings
from tavernkit.stores._variables import GLOBAL, LOCAL, InMemoryVariablesStore, VariablesStore

VariableWrites = Literal["keep", "run", "remove"]
"""How ``setvar`` and similar functions are treated: kept as text for a later pass, executed, or removed."""

Platform = Literal["web", "node", "local"]
"""The build of RisuAI that ``metadata`` reports."""

TOGGLE_PREFIX = "toggle_"
"""Toggles are global variables with this prefix."""


def _now() -> datetime:
    return datetime.now(UTC)


def _dice() -> Callable[[], float]:
    return random.Random(0).random


@dataclass(frozen=True, slots=True, kw_only=True)
class RisuDevice:
    """The device that shows the text, as far as texts can see it."""

    screen_width: int = 1280
    """Width of the screen in pixels."""
    screen_height: int = 720
    """Height of the screen in pixels."""
    platform: Platform = "web"
    """The build of RisuAI: ``web``, ``node`` or ``local``."""
    locale: str = "en-US"
    """The language of the browser, which dates are written in."""
    timezone: tzinfo = UTC
    """The time zone that times are written in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CBSContext:
    """Everything outside a text that RisuAI's languages can see; make variants with ``replace()``.

    The first part is the world:

    ``char``
        The selected character, a group, or just a name. ``character`` is the same as an object.
    ``speaker``
        Who the text speaks for (RisuAI's ``chara``): a character, the group, or a name. Default: no one in particular.
    ``user``
        The user's name. ``None`` reads as ``User``.
    ``chat``
        The active chat of ``char``.
    ``characters``
        All characters, to find the speaking member of a group.
    ``personas``
        The user's personas; the chat may be bound to one of them.
    ``variables``
        Chat variables (scope ``local``) and global variables (scope ``global``). Default: an empty store.
    ``toggles``
        Toggle values by name, without the prefix; the global scope of ``variables`` wins.
    ``settings``, ``device``
        RisuAI's database and the machine it would run on.
    ``clock``, ``random``
        The time (a naive one is taken as UTC; default: the system's) and numbers from 0 up to 1 (default: a fresh
        sequence that is the same every time; pass ``random.Random().random`` for real dice).

    The second part belongs to one expansion:

    ``chat_index``
        Index of the message being rendered, -1 for none.
    ``writes``
        What ``setvar``, ``addvar`` and ``setdefaultvar`` do.
    ``display``
        The text is shown to a person, not sent to a model.
    ``role``, ``chat_role``, ``first_message``
        The role of the text if nothing better is known; the role of the message it belongs to; whether that is the
        greeting.
    ``token_counting``, ``consistent_names``
        For counting tokens: lists give their first item and times are ``00:00:00``; names are ``botname`` and
        ``username``.
    ``trigger_id``
        Id of the manual trigger that is running.
    """

    char: RisuCharacter | str | None = None
    speaker: RisuCharacter | str | None = None
    user: str | None = None
    chat: RisuChat = field(default_factory=RisuChat)
    characters: tuple[RisuCharacter, ...] = ()
    personas: tuple[RisuPersona, ...] = ()
    variables: VariablesStore = field(default_factory=InMemoryVariablesStore)
    toggles: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    settings: RisuSettings = field(default_factory=RisuSettings)
    device: RisuDevice = field(default_factory=RisuDevice)
    clock: Callable[[], datetime] = _now
    random: Callable[[], float] = field(default_factory=_dice)

    chat_index: int = -1
    writes: VariableWrites = "keep"
    display: bool = False
    role: str | None = None
    chat_role: str = ""
    first_message: bool = False
    token_counting: bool = False
    consistent_names: bool = False
    trigger_id: str | None = None
    cbs_budget: BuildBudget | None = field(default=None, repr=False, compare=False)
    """The shared budget of all texts of a build; None for no limit."""

    character: RisuCharacter | None = field(init=False)
    """The selected character as an object."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "character", _as_character(self.char))

    def replace(self, **changes: Unpack[CBSContextChanges]) -> CBSContext:
        """Return a changed copy; the variable store, the clock and the dice stay shared."""
        if "char" in changes:
            return dataclasses.replace(self, **changes)
        return copy_with(self, **changes)

    @property
    def persona(self) -> RisuPersona | None:
        """The persona the chat is bound to, if it exists."""
        if not self.chat.bound_persona:
            return None
        return next((persona for persona in self.personas if persona.id == self.chat.bound_persona), None)

    @property
    def speaking(self) -> RisuCharacter | str | None:
        """The speaker, where a group is replaced by its member who spoke last (``bot`` before the first message)."""
        speaker: RisuCharacter | str | None = self.speaker or None  # an empty name counts as none
        if isinstance(speaker, RisuCharacter) and speaker.is_group:
            speaker = self._last_member(speaker)
        # Only while RisuAI counts tokens, no speaker at all has a name.
        if self.token_counting and speaker is None and self.character is None:
            return "bot"
        return speaker

    def _last_member(self, group: RisuCharacter) -> RisuCharacter | str | None:
        selected = self.character is not None and self.character.id == group.id
        chat = self.chat if selected else group.stored_chat or self.chat
        if not chat.messages:
            return "bot"
        saying = chat.messages[-1].saying
        return next((each for each in self.characters if saying is not None and each.id == saying), None)

    @property
    def character_name(self) -> str:
        """The value of ``{{char}}``; empty if there is no character."""
        if self.consistent_names:
            return "botname"
        character = self.character
        if character is not None and not character.is_group:
            return character.nickname or character.name
        speaking = self.speaking
        if speaking is not None:
            return speaking if isinstance(speaking, str) else speaking.name
        return "" if character is None else character.nickname or character.name

    @property
    def user_name(self) -> str:
        """The value of ``{{user}}``; empty if the bound persona has no name."""
        if self.consistent_names:
            return "username"
        persona = self.persona
        if persona is not None:
            return persona.name or ""
        return "User" if self.user is None else self.user

    @property
    def greeting(self) -> str | None:
        """The chosen greeting of the chat; None if it does not exist."""
        return None if self.character is None else self.character.greeting(self.chat.greeting_index)

    @property
    def seed_word(self) -> str:
        """The seed of ``pick`` and ``rollp``: the ids of the character and its chat."""
        return "" if self.character is None else self.character.id + self.chat.id

    @property
    def enabled_modules(self) -> tuple[RisuModule, ...]:
        """The modules enabled by settings, chat and character, in the order of the settings, without duplicates."""
        settings = self.settings
        if not settings.modules:
            return ()
        wanted = {*settings.enabled_modules, *self.chat.modules, *settings.integrated_modules}
        if self.character is not None:
            wanted.update(self.character.modules)
        found: dict[str, RisuModule] = {}
        for module in settings.modules:
            if module.id in wanted or (module.namespace is not None and module.namespace in wanted):
                found.setdefault(module.id, module)
        return tuple(found.values())

    def chat_variable(self, name: str) -> str:
        """Read a chat variable as texts see it: the stored value, else its default, else ``null``."""
        value = self.get_var(name)
        return value if isinstance(value, str) else to_string(value)

    def global_variable(self, name: str) -> str:
        """Read a global variable (or a toggle) as texts see it, ``null`` if it is not set."""
        return to_string(self.get_var(name, GLOBAL))

    def get_var(self, name: str, scope: str = LOCAL) -> Json:
        """Read a variable: stored, a default, or (global ones) a toggle; None if it is not set.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        if scope == GLOBAL:
            value = self.variables.get(name, GLOBAL)
            if value is None and name.startswith(TOGGLE_PREFIX):
                value = self.toggles.get(name.removeprefix(TOGGLE_PREFIX))
            return value
        if self.character is None:
            return None
        value = self.variables.get(name)
        if value is None:
            value = default_variables(self.character.default_variables).get(name)
        return default_variables(self.settings.template_default_variables).get(name) if value is None else value

    def set_var(self, name: str, value: Json, scope: str = LOCAL) -> None:
        """Store a variable.

        Args:
            name: The variable.
            value: Its value.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        self.variables.set(name, value, scope)

    def has_var(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if a variable is stored (defaults do not count).

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        return self.variables.has(name, scope)


class CBSContextChanges(TypedDict, total=False):
    """The fields that ``CBSContext.replace()`` takes."""

    char: RisuCharacter | str | None
    speaker: RisuCharacter | str | None
    user: str | None
    chat: RisuChat
    characters: tuple[RisuCharacter, ...]
    personas: tuple[RisuPersona, ...]
    variables: VariablesStore
    toggles: Mapping[str, bool | int | float | str]
    settings: RisuSettings
    device: RisuDevice
    clock: Callable[[], datetime]
    random: Callable[[], float]
    chat_index: int
    writes: VariableWrites
    display: bool
    role: str | None
    chat_role: str
    first_message: bool
    token_counting: bool
    consistent_names: bool
    trigger_id: str | None
    cbs_budget: BuildBudget | None


def _as_character(char: RisuCharacter | str | None) -> RisuCharacter | None:
    return RisuCharacter(name=char) if isinstance(char, str) else char


@lru_cache(maxsize=256)
def default_variables(text: str) -> Mapping[str, str]:
    """Read a list of default variables: lines of ``key=value``; a second ``=`` ends the value, the first line wins."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, rest = line.partition("=")
        value = rest.partition("=")[0]
        if key and value:
            found.setdefault(key, value)
    return found
