"""The inputs of a SillyTavern build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from os import PathLike
from typing import TypeAlias

from tavernkit.cache._profiles import CacheProfile
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import Character
from tavernkit.lore import LoreEngine
from tavernkit.prompt._inputs import CommonInputs, GroupDecision, LorePlace, OnOverflow, Strategy, VolatilePlace
from tavernkit.silly_tavern._chat.attachments import Measure
from tavernkit.silly_tavern._chat.card_fields import Persona
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.extension_prompts import ExtensionPrompt
from tavernkit.silly_tavern._chat.vector_storage import VectorResults
from tavernkit.silly_tavern._chat_completion.tools import Tool
from tavernkit.silly_tavern._files.chat_file import ChatFile, ChatMetadata
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import CharacterExtras, Group
from tavernkit.silly_tavern._macros.environment import MacroMemory
from tavernkit.silly_tavern._macros.registry import MacroRegistry
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts
from tavernkit.silly_tavern._templates.templates import ContextTemplate, InstructTemplate, SystemPrompt
from tavernkit.silly_tavern._token_counting.vocabularies import TokenizerFiles
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.result import WorldInfoResult
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tavernkit.stores._history import ChatHistory, MessageLike

HistoryInput: TypeAlias = ChatFile | ChatHistory | Iterable[ChatMessage | MessageLike] | None
"""A chat file, a store of messages, or a list of chat lines, messages or mappings with role and content."""


class SillyTavernInputs(CommonInputs, total=False):
    """Inputs of ``build()`` and ``Builder``. A build needs ``character``, or ``group`` and ``members``."""

    character: Character | Bundle | None
    """The card; in a group the speaker's. A loaded file (``tk.load``) also works."""
    history: HistoryInput
    """The chat so far. The header of a ``ChatFile`` counts as ``chat_metadata``."""
    preset: Preset | None
    """Prompts, samplers and budget of chat completion; the settings' own by default."""
    settings: Settings
    """SillyTavern's ``settings.json`` as far as prompts depend on it."""
    persona: Persona | None
    """The persona's text and place; by default the user's own text at the place in the settings."""
    avatar: str | None
    """The file name of the card, which books and notes are linked to; ``<name>.png`` by default."""
    chat_metadata: ChatMetadata | Mapping[str, object] | None
    """The chat's header: author's note, variables, timed effects, overrides."""
    chat_id: str | None
    """The chat's file name without its extension."""
    greeting: int | None
    """Put the card's first message (0) or an alternative (from 1) on the plan, expanded."""
    authors_note: Mapping[str, object]
    """Put the author's note elsewhere for this build: ``position``, ``depth``, ``role``."""
    group: Group | None
    """The group that talks."""
    members: Mapping[str, Character] | Sequence[Character]
    """Cards of the group's members by file name, or a list of cards: then each file is ``<name>.png``."""
    member_extras: Mapping[str, CharacterExtras]
    """Books, tags and regex scripts of the group's members, by file name."""
    speaker: str | None
    """Who speaks now: a member's file name or name."""
    decision: GroupDecision | None
    """Who speaks, decided by the application."""
    books: Sequence[WorldBook]
    """Lorebooks that are active everywhere."""
    character_books: Sequence[WorldBook]
    """Lorebooks linked to the character."""
    chat_books: Sequence[WorldBook]
    """Lorebooks linked to the chat."""
    persona_books: Sequence[WorldBook]
    """Lorebooks linked to the persona."""
    use_embedded_book: bool
    """Use the lorebook inside the card (the default)."""
    forced_world_info: Sequence[Mapping[str, object]]
    """Entries that fire regardless of the chat."""
    tags: Sequence[str]
    """The character's tags, for entries that are limited to some."""
    extension_prompts: Sequence[ExtensionPrompt | Mapping[str, object]]
    """SillyTavern's own registry of injected prompts, in its order."""
    regex_scripts: RegexScripts | None
    """Regex scripts, global and of the card and preset."""
    tools: Sequence[Tool | Mapping[str, object]]
    """Functions that the model may call; mappings may have the form of OpenAI's API."""
    instruct: InstructTemplate | None
    """Instruct template of text completion; the settings' own by default."""
    context_template: ContextTemplate | None
    """Context template of text completion; the settings' own by default."""
    system_prompt: SystemPrompt | None
    """System prompt of text completion; the settings' own by default."""
    stop_strings: Sequence[str]
    """More stop strings."""
    force_name2: bool
    """End the prompt with the character's name (text completion)."""
    quiet_prompt: str
    """The instruction of a ``quiet`` generation."""
    quiet_name: str
    """Who answers a quiet prompt."""
    quiet_to_loud: bool
    """Treat the answer to a quiet prompt as a message."""
    context_length: int
    """Size of the context in tokens; the preset's or the settings' by default."""
    response_length: int
    """Tokens kept for the reply; the preset's or the settings' by default."""
    skip_world_info_registration: bool
    """Leave lore at a depth and in outlets out of the prompt."""
    tool_recursion: int
    """The number of previous rounds of tool calls."""
    dry_run: bool
    """Build as SillyTavern does for its token counter: nothing is sent or stored."""
    strategy: Strategy
    """How the prompt is made to fit: ``reference`` (SillyTavern's way), ``group_order``, ``priority``, or ``cache``,
    which cuts the history in larger steps, so that many prompts begin the same way."""
    lore: LorePlace
    """Where lore goes that fires by key: ``reference`` (SillyTavern's places), or ``freeze``: permanently into the
    history where it fired."""
    volatile: VolatilePlace
    """Where notes, depth injections and texts with random or time macros go: ``reference`` (SillyTavern's places), or
    ``tail``: after the history."""
    cache_profile: CacheProfile | str | None
    """The provider whose prices and cache marks ``strategy="cache"`` uses; that of the preset's source by default."""
    expected_turns: int
    """How many more turns ``strategy="cache"`` expects; by default as many as there were."""
    on_overflow: OnOverflow
    """``error`` raises if required parts of the prompt do not fit; ``return`` gives SillyTavern's prompt."""
    macro_registry: MacroRegistry | None
    """The macros: ``default_registry()`` with yours. The legacy engine, which settings may choose, has only its own."""
    lore_engine: LoreEngine[ScanInput, WorldInfoResult] | None
    """Decides which World Info entries are active, instead of ``WorldInfoEngine``."""
    macro_memory: MacroMemory | None
    """The macros' state besides variables."""
    timezone: tzinfo
    """The time zone that date macros use; UTC by default."""
    random: Callable[[], float] | None
    """Random numbers from 0 to 1, instead of those made from ``seed``."""
    measure_media: Measure | None
    """Measures pictures for their token cost."""
    attachments: Mapping[str, str]
    """Texts of attached files and of the Data Bank, by their URL in chat lines."""
    media: Mapping[str, str] | None
    """Pictures, videos and sounds as ``data:`` URLs, by their URL in chat lines."""
    vectors: VectorResults | None
    """Results of Vector Storage searches."""
    tokenizers: TokenizerFiles | str | PathLike[str] | None
    """A folder of tokenizer files for models whose vocabulary is not shipped with TavernKit."""
    model_list: Sequence[Mapping[str, object]]
    """OpenRouter's list of models, with the tokenizer and the inputs (text, pictures, …) of each."""
