"""The parts of the user's ``settings.json`` that affect prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace

from tavernkit._dataclass import dataclass
from tavernkit._lazy import read_data
from tavernkit._text.json_reader import JsonReader
from tavernkit._values import EMPTY_OBJECT, FrozenObject, freeze_object, is_object, is_sequence
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._kinds import warn_if_mistaken
from tavernkit.cards._source import FileContent, called, read_file
from tavernkit.errors import FileFormatError, Warn, log_warning, refuse_warning
from tavernkit.silly_tavern._chat.authors_note import NoteSettings
from tavernkit.silly_tavern._chat.card_fields import Persona, stored_position
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._limits import MAX_SETTINGS_BYTES
from tavernkit.silly_tavern._macros.environment import CHAT_COMPLETION_API, TEXT_COMPLETION_API
from tavernkit.silly_tavern._templates.templates import (
    ContextTemplate,
    InstructTemplate,
    ReasoningSettings,
    SystemPrompt,
)
from tavernkit.silly_tavern._token_counting.choice import BEST_MATCH, TextBackend
from tavernkit.silly_tavern._world_info.selection import WorldInfoSettings

DEFAULT_MAX_CONTEXT, DEFAULT_AMOUNT_GEN = 8192, 350
"""The context and the reply of text completion in a fresh installation, in tokens."""

MISSING_MAX_CONTEXT, MISSING_AMOUNT_GEN = 2048, 80
"""The same for a file that does not have them."""


@dataclass(frozen=True, slots=True)
class AutoSwipe:
    """When a reply is swiped automatically: if it is too short, or has too many of some words."""

    words: tuple[str, ...] = ()
    threshold: int = 2
    minimum_length: int = 0


@dataclass(frozen=True, slots=True)
class AutoContinue:
    """When a reply is continued automatically: if it is shorter than a number of tokens."""

    target_length: int = 400
    chat_completion: bool = False


@dataclass(frozen=True, slots=True)
class PowerUser:
    """The switches of ``power_user`` that affect prompts."""

    collapse_newlines: bool = False
    """Collapse several line breaks into one."""
    pin_examples: bool = False
    """Keep example dialogue even if messages of the chat do not fit."""
    strip_examples: bool = False
    """Leave out example dialogue."""
    prefer_character_prompt: bool = True
    """Let the card's system prompt replace the main prompt."""
    prefer_character_jailbreak: bool = True
    """Let the card's post-history instructions replace the preset's."""
    user_prompt_bias: str = ""
    """The text that every reply starts with ("Start Reply With")."""
    custom_stopping_strings: str = ""
    """More stop strings, as a JSON list."""
    custom_stopping_strings_macro: bool = True
    """Expand macros in those stop strings."""
    experimental_macro_engine: bool = True
    """Use Macros 2.0 instead of the legacy engine."""
    media_display: str = "list"
    """How files of a message are shown: ``list`` sends all of them, ``gallery`` only the chosen one."""
    chat_truncation: int = 100
    """How many messages the page shows."""
    tokenizer: int = BEST_MATCH
    """SillyTavern's number of the tokenizer for text completion; 99 for the best match."""
    token_padding: int = 64
    """Tokens of the context that text completion leaves unused."""
    request_token_probabilities: bool = False
    """Ask for probabilities of tokens."""
    trim_spaces: bool = True
    """Remove white space around replies."""
    auto_fix_generated_markdown: bool = True
    """Remove spaces inside ``*`` and ``_``."""
    allow_name1_display: bool = False
    """Keep the user's name in replies."""
    allow_name2_display: bool = False
    """Keep the character's name in replies."""
    disable_group_trimming: bool = False
    """Do not cut replies where another member of the group begins to speak."""
    continue_on_send: bool = False
    """An empty message continues the last reply."""
    auto_swipe: AutoSwipe | None = None
    """When a reply is swiped automatically; None if disabled."""
    auto_continue: AutoContinue | None = None
    """When a reply is continued automatically; None if disabled."""
    reasoning: ReasoningSettings = field(default_factory=ReasoningSettings)
    """The reasoning template and its switches."""
    instruct: InstructTemplate = field(default_factory=lambda: InstructTemplate(enabled=False))
    """The instruct template in use."""
    context: ContextTemplate = field(default_factory=lambda: ContextTemplate(use_stop_strings=True))
    """The context template in use."""
    sysprompt: SystemPrompt = field(default_factory=SystemPrompt)
    """The system prompt in use, for text completion."""
    model_templates_mappings: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Which templates are selected for which model."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn) -> PowerUser:
        """Read ``power_user``.

        Args:
            data: The object ``power_user``.
            warn: Called with each warning.
        """
        reader = JsonReader(data, "settings.power_user", warn)
        return cls(
            collapse_newlines=reader.flag("collapse_newlines"),
            pin_examples=reader.flag("pin_examples"),
            strip_examples=reader.flag("strip_examples"),
            prefer_character_prompt=reader.flag("prefer_character_prompt", True),
            prefer_character_jailbreak=reader.flag("prefer_character_jailbreak", True),
            user_prompt_bias=reader.text("user_prompt_bias"),
            custom_stopping_strings=reader.text("custom_stopping_strings"),
            custom_stopping_strings_macro=reader.flag("custom_stopping_strings_macro", True),
            experimental_macro_engine=reader.flag("experimental_macro_engine", True),
            media_display=reader.text("media_display", "list"),
            chat_truncation=reader.integer("chat_truncation", 100),
            tokenizer=reader.integer("tokenizer", BEST_MATCH),
            token_padding=reader.integer("token_padding", 64),
            request_token_probabilities=reader.flag("request_token_probabilities"),
            trim_spaces=reader.flag("trim_spaces", True),
            auto_fix_generated_markdown=reader.flag("auto_fix_generated_markdown", True),
            allow_name1_display=reader.flag("allow_name1_display"),
            allow_name2_display=reader.flag("allow_name2_display"),
            disable_group_trimming=reader.flag("disable_group_trimming"),
            continue_on_send=reader.flag("continue_on_send"),
            auto_swipe=_auto_swipe(reader),
            auto_continue=_auto_continue(reader.reader("auto_continue")),
            reasoning=ReasoningSettings.from_json(reader.object("reasoning"), warn=warn),
            instruct=InstructTemplate.from_json({"enabled": False, **reader.object("instruct")}, warn=warn),
            context=_context(reader),
            sysprompt=_system_prompt(reader),
            model_templates_mappings=reader.object("model_templates_mappings"),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's settings. Every key of the file is in ``source``; parts that other modules read are kept as JSON."""

    username: str = "User"
    """The user's name."""
    user_avatar: str = ""
    """The file name of the persona's picture, which is its id."""
    power_user: PowerUser = field(default_factory=PowerUser)
    """Switches that affect prompts."""
    note: NoteSettings = field(default_factory=NoteSettings)
    """Defaults of the author's note."""
    persona: Persona = field(default_factory=Persona)
    """The persona's description and place."""
    main_api: str = CHAT_COMPLETION_API
    """The kind of API: ``openai`` for chat completion, else text completion."""
    preset: Preset = field(default_factory=Preset.default)
    """The active chat-completion settings."""
    max_context: int = DEFAULT_MAX_CONTEXT
    """Tokens of the context of text completion, including the reply."""
    amount_gen: int = DEFAULT_AMOUNT_GEN
    """Tokens kept for the reply of text completion."""
    world_info: WorldInfoSettings = field(default_factory=WorldInfoSettings)
    """The global World Info settings."""
    global_variables: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Variables that all chats share."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> Settings:
        """Read ``settings.json``.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.

        Raises:
            FileFormatError: The file is not a JSON object.
        """
        warn = refuse_warning if strict else warn
        data = parse_json(
            read_file(source, MAX_SETTINGS_BYTES, limit="MAX_SETTINGS_BYTES"), what=called(source), warn=warn
        )
        if not is_object(data):
            raise FileFormatError(f"{called(source)}: settings are a JSON object, not {type(data).__name__}")
        warn_if_mistaken(data, "settings.json", what=called(source), warn=warn)
        return cls.from_json(data, warn=warn)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> Settings:
        """Read settings from parsed JSON.

        Args:
            data: The parsed file.
            warn: Called with each warning.
        """
        reader = JsonReader(data, "settings", warn)
        power_user = reader.object("power_user")
        extensions = reader.reader("extension_settings")
        avatar = reader.text("user_avatar")
        return cls(
            username=reader.text("username") or "User",
            user_avatar=avatar,
            power_user=PowerUser.from_json(power_user, warn=warn),
            note=NoteSettings.from_json(extensions.object("note"), warn=warn),
            persona=_persona(power_user, warn),
            main_api=reader.text("main_api", CHAT_COMPLETION_API) or CHAT_COMPLETION_API,
            preset=Preset.from_settings(reader.object("oai_settings"), warn=warn),
            max_context=reader.integer("max_context", MISSING_MAX_CONTEXT),
            amount_gen=reader.integer("amount_gen", MISSING_AMOUNT_GEN),
            world_info=WorldInfoSettings.from_json(reader.object("world_info_settings"), warn=warn),
            global_variables=extensions.reader("variables").object("global"),
            source=freeze_object(data),
        )

    @classmethod
    def fresh(cls) -> Settings:
        """Return the settings that SillyTavern ships, which differ from its defaults for missing keys.

        Their API is the AI Horde, so builds are for text completion. ``source`` is empty, because no file was read.
        """
        content = read_data("tavernkit.silly_tavern", "fresh_settings.json")
        return replace(cls.from_json(json.loads(content)), source=EMPTY_OBJECT)

    @property
    def text_backend(self) -> TextBackend:
        """The text-completion backend in the files."""
        reader = JsonReader(self.source, "settings", _ignore)
        if self.main_api == "novel":
            return TextBackend(main_api="novel", model=reader.reader("nai_settings").text("model_novel", "clio-v1"))
        backend = reader.reader("textgenerationwebui_settings")
        kind = backend.text("type", "ooba")
        model = backend.text("custom_model" if kind == "ooba" else f"{kind}_model")
        api = self.main_api if self.main_api != CHAT_COMPLETION_API else TEXT_COMPLETION_API
        return TextBackend(main_api=api, type=kind, model=model)

    @property
    def extension_settings(self) -> FrozenObject:
        """The settings of extensions, unchanged."""
        found = self.source.get("extension_settings")
        return found if isinstance(found, Mapping) else EMPTY_OBJECT

    def of_extension(self, name: str) -> FrozenObject | None:
        """Return the settings of one extension, empty if there are none; None if the extension is disabled."""
        settings = self.extension_settings
        switched_off = settings.get("disabledExtensions")
        if is_sequence(switched_off) and name in switched_off:
            return None
        found = settings.get(name)
        return found if isinstance(found, Mapping) else EMPTY_OBJECT


def _auto_swipe(reader: JsonReader) -> AutoSwipe | None:
    if not reader.flag("auto_swipe"):
        return None
    return AutoSwipe(
        words=tuple(reader.texts("auto_swipe_blacklist")),
        threshold=reader.integer("auto_swipe_blacklist_threshold", 2),
        minimum_length=reader.integer("auto_swipe_minimum_length", 0),
    )


def _auto_continue(reader: JsonReader) -> AutoContinue | None:
    if not reader.flag("enabled"):
        return None
    return AutoContinue(
        target_length=reader.integer("target_length", 400),
        chat_completion=reader.flag("allow_chat_completions"),
    )


def _ignore(_message: str) -> None:
    """Ignore a warning about settings that are only looked up."""


def _context(reader: JsonReader) -> ContextTemplate:
    """Return the active context template, with its switches in the settings."""
    live = reader.object("context")
    template = ContextTemplate.from_json(live, warn=reader.warn) if live else ContextTemplate(use_stop_strings=True)
    return template.replace(
        always_force_name2=reader.flag("always_force_name2", True),
        trim_sentences=reader.flag("trim_sentences"),
        single_line=reader.flag("single_line"),
    )


def _system_prompt(reader: JsonReader) -> SystemPrompt:
    """Return the active system prompt; it was once part of the instruct template."""
    instruct = reader.reader("instruct")
    legacy = instruct.optional_text("system_prompt")
    if legacy is not None:
        return SystemPrompt(content=legacy, enabled=instruct.flag("enabled"))
    return SystemPrompt.from_json(reader.object("sysprompt"), warn=reader.warn)


def _persona(power_user: Mapping[str, object], warn: Warn) -> Persona:
    """Return the active persona: the live copy, not the stored description of the avatar."""
    reader = JsonReader(power_user, "settings.power_user", warn)
    return Persona(
        description=reader.text("persona_description"),
        position=stored_position(power_user.get("persona_description_position")),
        depth=reader.number("persona_description_depth", 2),
        role=reader.number("persona_description_role", 0),
        lorebook=reader.text("persona_description_lorebook") or None,
    )
