"""The inputs of a RisuAI build, and its context."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, cast

from tavernkit._arguments import require_choice
from tavernkit._dataclass import dataclass
from tavernkit._values import freeze_object, is_mapping
from tavernkit.cache._profiles import CacheProfile, find_profile
from tavernkit.cards._bundle import Bundle
from tavernkit.cards._character import Character, Participant
from tavernkit.errors import ConfigError, Warn, refuse_warning
from tavernkit.lore import LoreEngine
from tavernkit.prompt._context import REFERENCE, Context, random_numbers
from tavernkit.prompt._inputs import CommonInputs, LorePlace, OnOverflow, Strategy, VolatilePlace
from tavernkit.risu_ai._cbs.context import CBSContext, RisuDevice
from tavernkit.risu_ai._cbs.registry import CBSRegistry
from tavernkit.risu_ai._chat.chat_log import RisuChatLog, chat_log, with_greeting
from tavernkit.risu_ai._chat.prompt_message import Caption, Inlay
from tavernkit.risu_ai._files.card_import import risu_character
from tavernkit.risu_ai._files.chat_file import ChatFile, chat_variables
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._lorebook.book import BookInput, Lorebook, lorebook
from tavernkit.risu_ai._lorebook.engine import ScanInput
from tavernkit.risu_ai._lorebook.result import LorebookResult
from tavernkit.risu_ai._memory.contract import MemoryModels
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuModule
from tavernkit.risu_ai._regex_scripts.script import RegexScript, write_scripts
from tavernkit.risu_ai._triggers.host import TriggerHost
from tavernkit.stores._history import ChatHistory, MessageLike
from tavernkit.stores._variables import InMemoryVariablesStore, VariablesStore

Translate: TypeAlias = Callable[[str, str], str]
"""Translates a text into a language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSteps:
    """Steps of a send. ``None`` leaves a step to the settings of the save, where all are off by default.

    A save does not enable suggestions and the translation of input, because its settings for them are unknown.
    """

    suggest: bool = False
    """Ask what the user could say next."""
    translate_input: str = ""
    """Translate what the user types into this language before it is stored; empty for never."""
    translate_reply: str | None = None
    """Translate replies into this language for display; the chat keeps the originals. Empty for never. In a save:
    ``autoTranslate``, into the language that ``translator`` names."""
    translate: Translate | None = None
    """Translates; by default the auxiliary model does."""
    emotion: bool | None = None
    """Ask which picture fits the reply. In a save: the character's ``viewScreen``."""
    inlay_prompt: str | None = None
    """Ask for a text to add to the reply, with this prompt in ChatML; empty for never. In a save: ``igpPrompt``."""

    def reply_language(self, settings: Settings) -> str:
        """Return the language that replies are shown in; empty if they are shown unchanged."""
        if self.translate_reply is not None:
            return self.translate_reply
        language = settings.raw.get("translator")
        return language if settings.raw.get("autoTranslate") and isinstance(language, str) else ""

    def added_prompt(self, settings: Settings) -> str:
        """Return the prompt for texts added to replies; empty if there are none."""
        prompt = settings.raw.get("igpPrompt") if self.inlay_prompt is None else self.inlay_prompt
        return prompt if isinstance(prompt, str) else ""


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


GENERATION_TYPES = ("normal", "continue")

SCRIPTS_MODULE = "regex_scripts"
"""The name of the module that ``regex_scripts`` work like."""


@dataclass(frozen=True, kw_only=True)
class RisuAIContext(Context):
    """The frozen input of one build, with a value for every input that ``RisuAIInputs`` describes."""

    preset: Preset | None = None
    settings: Settings = field(default_factory=Settings)
    greeting: int | None = None
    members: Sequence[RisuCharacter] = ()
    speaker: str | None = None
    modules: Sequence[RisuModule] = ()
    books: Sequence[Lorebook] = ()
    regex_scripts: Sequence[RegexScript] = ()
    toggles: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    inlays: Mapping[str, Inlay] = field(default_factory=dict[str, Inlay])
    tool_calls: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    caption: Caption | None = None
    memory: MemoryModels | None = None
    macro_registry: CBSRegistry | None = None
    lore_engine: LoreEngine[ScanInput, LorebookResult] | None = None
    trigger_host: TriggerHost | None = None
    send_steps: SendSteps = field(default_factory=SendSteps)
    say_nothing: bool = False
    quirks: Literal["", "reference"] = ""

    strategy: Strategy = REFERENCE
    lore: LorePlace = REFERENCE
    volatile: VolatilePlace = REFERENCE
    cache_profile: CacheProfile | str = "openai"
    expected_turns: int = 0
    on_overflow: OnOverflow = "error"

    random: Callable[[], float] | None = None
    device: RisuDevice = field(default_factory=RisuDevice)

    owns_variables: bool = field(init=False, default=False)
    """True if the application keeps the variables, not just this build."""

    inputs_type: ClassVar[type] = RisuAIInputs
    converted_inputs: ClassVar[tuple[str, ...]] = ("character", "members", "books")

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        find_profile(self.cache_profile)
        if self.expected_turns < 0:
            raise ConfigError(f"expected_turns must be 0 or more, not {self.expected_turns}")
        require_choice("generation_type", self.generation_type, GENERATION_TYPES)
        set_field(self, "character", risu_character(self.character))
        set_field(self, "members", _members(self.members))
        warn = refuse_warning if self.strict else self.warn or _ignore
        set_field(self, "books", tuple([lorebook(each, warn) for each in self.books]))
        log = chat_log(self.history)
        chat = with_greeting(log.chat, self.greeting)
        set_field(self, "history", log if chat is log.chat else RisuChatLog(chat))
        set_field(self, "owns_variables", self.variables is not None)
        if self.variables is None:
            local, shared = chat_variables(self.chat), self.settings.global_variables
            set_field(self, "variables", InMemoryVariablesStore({"local": local, "global": shared}))
        super().__post_init__()

    @property
    def chat(self) -> RisuChat:
        """The chat with everything RisuAI stores in it."""
        return cast("RisuChatLog", self.history).chat

    @property
    def owner(self) -> RisuCharacter:
        """The selected character or group; an empty one if none was given."""
        return cast("RisuCharacter", self.character) if self.character is not None else RisuCharacter()

    @property
    def active_preset(self) -> Preset:
        """The given preset, else the one in the settings."""
        return self.preset if self.preset is not None else self.settings.preset

    @property
    def user_name(self) -> str:
        """The name of the user outside of a bound persona."""
        user: Participant | None = self.user
        return user.name if user is not None else self.settings.username

    @property
    def persona_prompt(self) -> str:
        """The persona's text outside of a bound persona."""
        user: Participant | None = self.user
        return user.persona_text or self.settings.persona_prompt if user is not None else self.settings.persona_prompt

    @property
    def continued(self) -> bool:
        """True if the last message should be continued."""
        return self.generation_type == "continue"

    @property
    def session(self) -> tuple[object, ...] | None:
        """The id of this chat, if known."""
        if not self.owns_variables and not self.chat.id:
            return None
        return (self.owner.id, self.chat.id, self.user_name, id(self.variables) if self.owns_variables else 0)

    @property
    def random_source(self) -> Callable[[], float]:
        """Random numbers of this build, the same for every build of this context."""
        if self.random is not None and self.seed is None:
            return self.random
        return random_numbers(self.drawn_seed if self.seed is None else self.seed)

    @cached_property
    def more_modules(self) -> Sequence[RisuModule]:
        """The modules of the inputs; books and regex scripts work like modules after them."""
        modules = [*self.modules]
        for number, book in enumerate(self.books):
            modules.append(RisuModule(id=f"book:{number}:{book.name}", name=book.name, lore=book.entries))
        if self.regex_scripts:
            raw = freeze_object({"regex": write_scripts(self.regex_scripts)["data"]})
            modules.append(RisuModule(id=SCRIPTS_MODULE, name=SCRIPTS_MODULE, raw=raw))
        return modules

    @property
    def active_settings(self) -> Settings:
        """The settings with the build's own modules enabled and its persona active."""
        settings = self.settings
        changes: dict[str, object] = {}
        if self.persona_prompt != settings.persona_prompt:
            changes["persona_prompt"] = self.persona_prompt
        if self.more_modules:
            known = {module.id for module in settings.modules}
            changes["modules"] = (*settings.modules, *(each for each in self.more_modules if each.id not in known))
            changes["enabled_modules"] = (*settings.enabled_modules, *(each.id for each in self.more_modules))
        return settings.replace(**changes) if changes else settings

    def for_texts(self, preset: Preset, speaker: RisuCharacter, variables: VariablesStore) -> CBSContext:
        """Return the context of texts at the start of a build; they write to ``variables``.

        Args:
            preset: The preset of the build.
            speaker: The character who speaks.
            variables: Where texts read and write variables.
        """
        settings = self.active_settings
        return CBSContext(
            char=self.owner,
            speaker=speaker,
            user=self.user_name,
            chat=self.chat,
            characters=(self.owner, *self.members),
            personas=settings.personas,
            variables=variables,
            toggles=self.toggles,
            settings=settings.for_texts(preset),
            device=self.device,
            clock=self.clock,
            random=self.random_source,
        )


def _ignore(_: str) -> None:
    """Ignore a warning: the application does not want them."""


def _members(value: Sequence[object] | Mapping[str, object]) -> tuple[RisuCharacter, ...]:
    found = [risu_character(each) for each in (value.values() if is_mapping(value) else value)]
    return tuple(each for each in found if each is not None)


def chained_settings(context: RisuAIContext, random: Callable[[], float], warn: Warn) -> Settings:
    """Return the settings of a send: switched to a preset of the chain, unless the application passes one."""
    settings = context.settings
    if context.preset is not None or not settings.preset_chain:
        return settings
    names = [name.strip() for name in settings.preset_chain.split(",")]
    wanted = names[min(math.floor(random() * len(names)), len(names) - 1)]
    found = next((index for index, preset in enumerate(settings.presets) if preset.name == wanted), None)
    if found is None:
        warn(f"the preset chain names {wanted!r}, which is not among the presets; the one in force is used")
        return settings
    return settings.switch_preset(found)
