"""The inputs of a RisuAI build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from tavernkit.cache._profiles import CacheProfile
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import Character
from tavernkit.lore._contracts import LoreEngine
from tavernkit.prompt._inputs import CommonInputs, LorePlace, OnOverflow, Strategy, VolatilePlace
from tavernkit.risu_ai._cbs.context import RisuDevice
from tavernkit.risu_ai._cbs.registry import CBSRegistry
from tavernkit.risu_ai._chat.inlays import Caption, Inlay
from tavernkit.risu_ai._chat.send_steps import SendSteps
from tavernkit.risu_ai._files.chat_file import ChatFile
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._lorebook.book import BookInput
from tavernkit.risu_ai._lorebook.engine import ScanInput
from tavernkit.risu_ai._lorebook.result import LorebookResult
from tavernkit.risu_ai._memory.contract import MemoryModels
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuModule
from tavernkit.risu_ai._regex_scripts.script import RegexScript
from tavernkit.risu_ai._triggers.host import TriggerHost
from tavernkit.stores._history import ChatHistory, MessageLike

CharacterInput: TypeAlias = RisuCharacter | Character | Bundle | Mapping[str, object]
"""RisuAI's own character (or its JSON), a card or a loaded file."""

HistoryInput: TypeAlias = (
    RisuChat | ChatFile | Mapping[str, object] | ChatHistory | Iterable[RisuMessage | MessageLike] | None
)
"""A chat as RisuAI stores it (or its JSON), a store of messages, or a list of messages."""


class RisuAIInputs(CommonInputs, total=False):
    """Inputs of ``build()`` and ``Builder``."""

    character: CharacterInput | None
    """The character or group: a card, a loaded file or RisuAI's own object."""
    history: HistoryInput
    """The chat so far."""
    preset: Preset | None
    """The active preset; by default that of the settings."""
    settings: Settings
    """The part of RisuAI's database that affects prompts."""
    greeting: int | None
    """Begin with the card's first message (0) or an alternative (from 1); by default, the chat's own choice."""
    members: Sequence[CharacterInput] | Mapping[str, CharacterInput]
    """The characters of a group."""
    speaker: str | None
    """The id of the member who speaks now."""
    modules: Sequence[RisuModule]
    """Modules that are enabled in addition to those of the settings."""
    books: Sequence[BookInput]
    """Lorebooks that are active everywhere. Each works like a module with this lore, enabled after all others."""
    regex_scripts: Sequence[RegexScript]
    """More regex scripts. They work like those of a module that is enabled after all others."""
    toggles: Mapping[str, bool | int | float | str]
    """Values of the toggles that prompts ask for."""
    inlays: Mapping[str, Inlay]
    """The pictures, sounds and videos that messages name."""
    tool_calls: Mapping[str, Mapping[str, object]]
    """Tool calls that messages name by ``<tool_call>`` marks: ``call`` in OpenAI's shape and ``result``, by id."""
    memory: MemoryModels | None
    """The models of long-term memory."""
    macro_registry: CBSRegistry | None
    """The functions of CBS: ``standard_registry().copy()`` with yours."""
    lore_engine: LoreEngine[ScanInput, LorebookResult] | None
    """Decides which lorebook entries are active, instead of ``LorebookEngine``."""
    trigger_host: TriggerHost | None
    """What triggers and Lua may ask of the application."""
    caption: Caption | None
    """Describes pictures to models that cannot see them."""
    send_steps: SendSteps
    """Additional steps of a send (translations, suggestions, pictures); by default those of the save."""
    say_nothing: bool
    """Send ``*says nothing*`` for an empty message."""
    quirks: Literal["", "reference"]
    """``reference`` also reproduces RisuAI's bugs that damage a chat."""
    strategy: Strategy
    """How the prompt is made to fit: ``reference`` (RisuAI's way), ``group_order``, ``priority``, or ``cache``, which
    cuts the chat in larger steps, so that many prompts begin the same way."""
    lore: LorePlace
    """Where lore goes that fires by key: ``reference`` (RisuAI's places), or ``freeze``: permanently into the chat
    where it fired."""
    volatile: VolatilePlace
    """Where notes, lore at a depth and texts with random or time functions go: ``reference`` (RisuAI's places), or
    ``tail``: after the chat."""
    cache_profile: CacheProfile | str
    """The provider whose prices and cache marks ``strategy="cache"`` uses; ``openai`` by default."""
    expected_turns: int
    """How many more turns ``strategy="cache"`` expects; by default as many as there were."""
    on_overflow: OnOverflow
    """``error`` raises if required parts of the prompt do not fit; ``return`` gives RisuAI's prompt."""
    random: Callable[[], float] | None
    """Random numbers from 0 to 1, instead of those made from ``seed``."""
    device: RisuDevice
    """The screen and platform that texts may ask about."""
