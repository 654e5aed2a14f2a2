"""The context of a SillyTavern build."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, tzinfo
from typing import ClassVar, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, is_mapping
from tavernkit.cache._profiles import CacheProfile, find_profile
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import Character, Participant
from tavernkit.errors import ConfigError
from tavernkit.lore import LoreEngine
from tavernkit.prompt._context import REFERENCE, Context, random_numbers
from tavernkit.prompt._inputs import GroupDecision, LorePlace, OnOverflow, Strategy, VolatilePlace
from tavernkit.silly_tavern._chat.attachments import Measure
from tavernkit.silly_tavern._chat.authors_note import read_overrides
from tavernkit.silly_tavern._chat.card_fields import Persona
from tavernkit.silly_tavern._chat.chat_log import ChatLog, chat_log
from tavernkit.silly_tavern._chat.extension_prompts import ExtensionPrompt
from tavernkit.silly_tavern._chat.vector_storage import VectorResults
from tavernkit.silly_tavern._chat_completion.tools import Tool, read_tool
from tavernkit.silly_tavern._files.chat_file import ChatFile, ChatMetadata
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.settings import Settings
from tavernkit.silly_tavern._group import CharacterExtras, Group
from tavernkit.silly_tavern._inputs import SillyTavernInputs
from tavernkit.silly_tavern._macros.environment import CHAT_COMPLETION_API, TEXT_COMPLETION_API, MacroMemory
from tavernkit.silly_tavern._macros.registry import MacroRegistry
from tavernkit.silly_tavern._scripts.regex_scripts import RegexScripts
from tavernkit.silly_tavern._templates.templates import ContextTemplate, InstructTemplate, SystemPrompt
from tavernkit.silly_tavern._token_counting.vocabularies import TokenizerFiles
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.result import WorldInfoResult
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tavernkit.stores._variables import InMemoryVariablesStore

TEXT_DIALECT = "text"

PROFILES_OF_SOURCES = {
    "claude": "anthropic",
    "openrouter": "openrouter",
    "makersuite": "google",
    "vertexai": "google",
    "deepseek": "deepseek",
    "custom": "llama_cpp",
}
"""Cache profiles of chat-completion sources; all others use OpenAI's."""

PROFILES_OF_BACKENDS = {"vllm": "vllm", "openrouter": "openai", "togetherai": "openai", "infermaticai": "vllm"}
"""Cache profiles of text-completion backends; all others keep the last prompt, like llama.cpp."""

NO_METADATA = ChatMetadata()
"""The header of a chat that has none."""


@dataclass(frozen=True, kw_only=True)
class SillyTavernContext(Context):
    """The frozen input of one build, with a value for every input that ``SillyTavernInputs`` describes."""

    preset: Preset | None = None
    settings: Settings = field(default_factory=Settings)
    persona: Persona | None = None
    avatar: str | None = None
    chat_metadata: ChatMetadata | None = None
    chat_id: str | None = None
    greeting: int | None = None
    authors_note: Mapping[str, object] = field(default_factory=lambda: EMPTY_OBJECT)

    group: Group | None = None
    members: Mapping[str, Character] = field(default_factory=dict[str, Character])
    member_extras: Mapping[str, CharacterExtras] = field(default_factory=dict[str, CharacterExtras])
    speaker: str | None = None
    decision: GroupDecision | None = None

    books: Sequence[WorldBook] = ()
    character_books: Sequence[WorldBook] = ()
    chat_books: Sequence[WorldBook] = ()
    persona_books: Sequence[WorldBook] = ()
    use_embedded_book: bool = True
    forced_world_info: Sequence[Mapping[str, object]] = ()
    tags: Sequence[str] = ()

    extension_prompts: Sequence[ExtensionPrompt] = ()
    regex_scripts: RegexScripts | None = None
    tools: Sequence[Tool] = ()

    instruct: InstructTemplate | None = None
    context_template: ContextTemplate | None = None
    system_prompt: SystemPrompt | None = None
    stop_strings: Sequence[str] = ()
    force_name2: bool = False

    quiet_prompt: str = ""
    quiet_name: str = ""
    quiet_to_loud: bool = False
    context_length: int = 0
    response_length: int = 0
    skip_world_info_registration: bool = False
    tool_recursion: int = 0
    dry_run: bool = False

    strategy: Strategy = REFERENCE
    lore: LorePlace = REFERENCE
    volatile: VolatilePlace = REFERENCE
    cache_profile: CacheProfile | str | None = None
    expected_turns: int = 0
    on_overflow: OnOverflow = "error"

    macro_registry: MacroRegistry | None = None
    lore_engine: LoreEngine[ScanInput, WorldInfoResult] | None = None
    macro_memory: MacroMemory | None = None
    timezone: tzinfo = UTC
    random: Callable[[], float] | None = None
    measure_media: Measure | None = None
    attachments: Mapping[str, str] = field(default_factory=dict[str, str])
    media: Mapping[str, str] | None = None
    vectors: VectorResults | None = None
    tokenizers: TokenizerFiles | None = None
    model_list: Sequence[Mapping[str, object]] = ()

    inputs_type: ClassVar[type] = SillyTavernInputs

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        if self.cache_profile is not None:
            find_profile(self.cache_profile)
        for name in ("expected_turns", "context_length", "response_length", "tool_recursion"):
            if (number := getattr(self, name)) < 0:
                raise ConfigError(f"{name} must be 0 or more, not {number}")
        if isinstance(self.character, Bundle):
            if self.character.card is None:
                raise ConfigError("the loaded file that was passed as character contains none")
            set_field(self, "character", self.character.card)
        members: Mapping[str, Character] | Sequence[Character] = self.members
        if not is_mapping(members):
            set_field(self, "members", {f"{each.name}.png": each for each in cast("Sequence[Character]", members)})
        history: object = self.history
        if isinstance(history, ChatFile):
            if self.chat_metadata is None:
                set_field(self, "chat_metadata", history.metadata)
            if self.chat_id is None:
                set_field(self, "chat_id", history.name or None)
        if is_mapping(self.chat_metadata):
            set_field(self, "chat_metadata", ChatMetadata.from_json(self.chat_metadata))
        set_field(self, "authors_note", read_overrides(self.authors_note))
        tokenizers: object = self.tokenizers
        if isinstance(tokenizers, (str, os.PathLike)):
            set_field(self, "tokenizers", TokenizerFiles(cast("str | os.PathLike[str]", tokenizers)))
        set_field(self, "tools", tuple([_tool(each) for each in self.tools]))
        set_field(self, "extension_prompts", tuple([_extension_prompt(each) for each in self.extension_prompts]))
        set_field(self, "history", chat_log(self.history, user_name=self.user_name, character_name=self.character_name))
        if self.macro_memory is None:
            stored = self.metadata.get("chat_id_hash")
            set_field(
                self, "macro_memory", MacroMemory(chat_id_hash=stored if isinstance(stored, (int, str)) else None)
            )
        if self.variables is None:
            set_field(self, "variables", _variables(self.metadata, self.settings))
        super().__post_init__()

    @property
    def log(self) -> ChatLog:
        """The history with its full lines."""
        return cast("ChatLog", self.history)

    @property
    def memory(self) -> MacroMemory:
        """The macros' state besides variables."""
        return self.macro_memory if self.macro_memory is not None else MacroMemory()

    @property
    def active_preset(self) -> Preset:
        """The given preset, else the one in the settings."""
        return self.preset if self.preset is not None else self.settings.preset

    @property
    def metadata(self) -> ChatMetadata:
        """The chat's header."""
        return self.chat_metadata if self.chat_metadata is not None else NO_METADATA

    @property
    def card(self) -> Character | None:
        """The character's card."""
        return cast("Character | None", self.character)

    @property
    def character_name(self) -> str:
        """The value of ``{{char}}``."""
        return self.character.name if self.character is not None else ""

    @property
    def user_name(self) -> str:
        """The value of ``{{user}}``; an empty name becomes ``User``."""
        user: Participant | None = self.user
        return (user.name if user is not None else self.settings.username) or "User"

    @property
    def active_persona(self) -> Persona:
        """The given persona, else the user's own text at the place in the settings."""
        if self.persona is not None:
            return self.persona
        own = self.settings.persona
        if self.user is None or not self.user.persona_text:
            return own
        return Persona(self.user.persona_text, own.position, own.depth, own.role, own.lorebook)

    @property
    def avatar_file(self) -> str:
        """The file name of the character's card; ``<name>.png`` if none was given."""
        return self.avatar or f"{self.character_name}.png"

    @property
    def prompt_type(self) -> str:
        """The generation type for prompts and requests: in a group, regenerating is a normal generation."""
        return "normal" if self.group is not None and self.generation_type == "regenerate" else self.generation_type

    @property
    def active_cache_profile(self) -> CacheProfile:
        """The given cache profile, else that of the preset's source; for text completion, that of the backend."""
        if self.text_completion:
            backend = self.settings.text_backend.type
            return find_profile(self.cache_profile or PROFILES_OF_BACKENDS.get(backend, "llama_cpp"))
        source = self.active_preset.chat_completion_source
        return find_profile(self.cache_profile or PROFILES_OF_SOURCES.get(source, "openai"))

    @property
    def text_completion(self) -> bool:
        """True if one text is built (``dialect="text"``) instead of messages."""
        return self.dialect == TEXT_DIALECT

    @property
    def main_api(self) -> str:
        """The kind of API that macros see."""
        if not self.text_completion:
            return CHAT_COMPLETION_API
        chosen = self.settings.main_api
        return chosen if chosen != CHAT_COMPLETION_API else TEXT_COMPLETION_API

    @property
    def active_instruct(self) -> InstructTemplate:
        """The given instruct template, else the one in the settings."""
        return self.instruct if self.instruct is not None else self.settings.power_user.instruct

    @property
    def active_context_template(self) -> ContextTemplate:
        """The given context template, else the one in the settings."""
        return self.context_template if self.context_template is not None else self.settings.power_user.context

    @property
    def active_system_prompt(self) -> SystemPrompt:
        """The given system prompt, else the one in the settings."""
        return self.system_prompt if self.system_prompt is not None else self.settings.power_user.sysprompt

    @property
    def max_context(self) -> int:
        """The size of the context in tokens: this generation's own, else the preset's or, for text, the settings'."""
        if self.context_length > 0:
            return self.context_length
        return self.settings.max_context if self.text_completion else self.active_preset.openai_max_context

    @property
    def max_response(self) -> int:
        """Tokens kept for the reply: this generation's own length, else the preset's or, for text, the settings'."""
        if self.response_length > 0:
            return self.response_length
        return self.settings.amount_gen if self.text_completion else self.active_preset.openai_max_tokens

    @property
    def random_source(self) -> Callable[[], float]:
        """Random numbers of this build, the same for every build of this context."""
        if self.random is not None and self.seed is None:
            return self.random
        return random_numbers(self.drawn_seed if self.seed is None else self.seed)


def _variables(metadata: ChatMetadata, settings: Settings) -> InMemoryVariablesStore:
    return InMemoryVariablesStore({"local": metadata.variables, "global": settings.global_variables})


def _tool(value: object) -> Tool:
    found = value if isinstance(value, Tool) else read_tool(value)
    if found is None:
        raise ConfigError(
            f"a tool must be a Tool or a mapping with name, description and parameters, not {value!r:.80}"
        )
    return found


def _extension_prompt(value: object) -> ExtensionPrompt:
    if isinstance(value, ExtensionPrompt):
        return value
    if is_mapping(value):
        return ExtensionPrompt.from_json(value)
    raise ConfigError(f"an extension prompt must be an ExtensionPrompt or a mapping, not {type(value).__name__}")
