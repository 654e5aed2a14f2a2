"""What a RisuAI build can be given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from tavernkit.cache._profiles import CacheProfile
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import Character
from tavernkit.lore._contracts import LoreEngine
from tavernkit.prompt._inputs import CommonInputs
from tavernkit.risu_ai._cbs.context import RisuDevice
from tavernkit.risu_ai._cbs.registry import CBSRegistry
from tavernkit.risu_ai._chat.inlays import Caption, Inlay
from tavernkit.risu_ai._chat.send_steps import SendSteps
from tavernkit.risu_ai._files.chat_file import ChatFile
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._lorebook.engine import ScanInput
from tavernkit.risu_ai._lorebook.result import LorebookResult
from tavernkit.risu_ai._memory.contract import MemoryModels
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuModule
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
    """The preset in force; the settings' own by default."""
    settings: Settings
    """RisuAI's database as far as prompts depend on it."""
    members: Sequence[CharacterInput] | Mapping[str, CharacterInput]
    """The characters of a group."""
    speaker: str | None
    """The id of the member who speaks now."""
    modules: Sequence[RisuModule]
    """Modules that are switched on in addition to those of the settings."""
    toggles: Mapping[str, bool | int | float | str]
    """Values of the toggles that prompts ask for."""
    inlays: Mapping[str, Inlay]
    """The pictures, sounds and films that messages name."""
    tool_calls: Mapping[str, Mapping[str, object]]
    """Tool calls that messages name by ``<tool_call>`` marks: ``call`` in OpenAI's shape and ``result``, by id."""
    memory: MemoryModels | None
    """The models that long-term memory asks."""
    macro_registry: CBSRegistry | None
    """The functions of CBS: ``standard_registry().copy()`` with yours."""
    lore_engine: LoreEngine[ScanInput, LorebookResult] | None
    """Decides which lorebook entries are active, instead of a ``LorebookEngine``."""
    trigger_host: TriggerHost | None
    """What triggers and Lua may ask of the application."""
    caption: Caption | None
    """Describes pictures to models that cannot see them."""
    send_steps: SendSteps
    """What a send does beside asking for the reply (translations, suggestions, pictures); by default what the save
    says."""
    say_nothing: bool
    """Send ``*says nothing*`` for an empty message."""
    quirks: str
    """``reference`` also reproduces what RisuAI does to a chat by mistake."""
    strategy: str
    """How the prompt is made to fit: ``reference`` (RisuAI's way), ``group_order``, ``priority``, or ``cache``, which
    cuts the chat in larger steps, so that many prompts begin alike."""
    lore: str
    """Where lore goes that fires by key: ``reference`` (RisuAI's places), or ``freeze``: into the chat where it fired,
    once, to stay there."""
    volatile: str
    """Where notes, lore at a depth and texts with random or time functions go: ``reference`` (RisuAI's places), or
    ``tail``: behind the chat."""
    cache_profile: CacheProfile | str
    """The provider whose prices ``strategy="cache"`` reckons with; ``openai`` by default."""
    expected_turns: int
    """How many more turns ``strategy="cache"`` reckons with; by default as many as there were."""
    on_overflow: str
    """``error`` raises when what must be in the prompt does not fit; ``return`` gives RisuAI's prompt."""
    random: Callable[[], float] | None
    """Random numbers from 0 to 1, instead of those made from ``seed``."""
    device: RisuDevice
    """The screen and platform that texts may ask about."""
