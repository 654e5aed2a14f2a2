"""RisuAI's preset: read from any of its files, changed, and written back without loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from os import PathLike
from pathlib import Path

from tavernkit._atomic import write_atomically
from tavernkit._dataclass import dataclass
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw,
    thaw_object,
)
from tavernkit.budget._trimmer import max_prompt_tokens
from tavernkit.cards._source import FileContent, read_file
from tavernkit.errors import Warn, log_warning, refuse_warning
from tavernkit.risu_ai._files.json_reader import JsonReader
from tavernkit.risu_ai._limits import MAX_PRESET_BYTES
from tavernkit.risu_ai._prompt_template.cards import PromptSettings, TemplateCard, read_cards, write_card
from tavernkit.risu_ai._requests.reformat import DEFAULT_SYSTEM_CONTENT
from tavernkit.risu_ai._requests.text_completion import OobaFormat

DEFAULT_ORDER = (
    "main",
    "description",
    "personaPrompt",
    "chats",
    "lastChat",
    "jailbreak",
    "lorebook",
    "globalNote",
    "authorNote",
)
"""The order of a prompt without a template."""

DATABASE_KEYS: Mapping[str, str] = {"regex": "presetRegex"}
"""Preset keys that have another name in RisuAI's database."""

DATABASE_DEFAULTS: Mapping[str, Json] = {"maxResponse": 500, "systemContentReplacement": DEFAULT_SYSTEM_CONTENT}
"""Keys with different defaults in a new database and in a preset."""

SECRET_KEYS = (
    "openAIKey",
    "forceReplaceUrl",
    "forceReplaceUrl2",
    "proxyKey",
    "textgenWebUIStreamURL",
    "textgenWebUIBlockingURL",
)
"""Keys that describe a user's connections; a preset is written with these empty."""

DEFAULT_MODEL = "gemini-3-flash-preview"
UNSET_SAMPLER = -1000
"""RisuAI's value for a sampler that is not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A preset: prompts or a prompt template, limits, samplers and scripts.

    ``main_prompt`` and ``jailbreak`` are ``None`` in a preset without them: RisuAI then uses its own texts, which are
    not part of this library. Numbers of samplers are as RisuAI stores them (``temperature`` 80 is 0.8).
    ``raw`` has every key of the file; make changed presets with ``replace()``.
    """

    name: str = "Default"
    """What the preset is called."""
    main_prompt: str | None = None
    jailbreak: str | None = None
    global_note: str = ""
    """The global note, which goes after the chat unless the character replaces it."""
    formating_order: tuple[str, ...] = DEFAULT_ORDER
    """The order of the parts of a prompt without a template (RisuAI's spelling)."""
    prompt_preprocess: bool = False
    """True to add the settings' ``additional_prompt`` and ``description_prefix``."""
    prompt_template: tuple[TemplateCard, ...] | None = None
    """The cards of the prompt template; None to use ``formating_order``."""
    prompt_settings: PromptSettings = field(default_factory=PromptSettings)
    """Switches of the prompt template."""
    max_context: int = 4000
    """Tokens of the context, including the reply."""
    max_response: int = 300
    """Tokens kept for the reply."""
    temperature: float = 80
    frequency_penalty: float = 70
    """The penalty times 100; -1000 if it is not sent."""
    presence_penalty: float = 70
    """The penalty times 100; -1000 if it is not sent."""
    top_p: float = 1
    """Top P, as it is sent; -1000 if it is not sent."""
    ai_model: str = DEFAULT_MODEL
    """RisuAI's id of the main model."""
    sub_model: str = DEFAULT_MODEL
    """RisuAI's id of the model for helpers such as memory and emotion."""
    regex: tuple[FrozenObject, ...] = ()
    """Regex scripts of the preset, as RisuAI stores them."""
    custom_prompt_template_toggle: str = ""
    """The toggles that the preset offers, one per line."""
    template_default_variables: str = ""
    """Values of chat variables that are not set: lines of ``name=value``."""
    module_integration: str = ""
    """Ids or namespaces of modules that are switched on with the preset, separated by commas."""
    group_template: str = ""
    """How messages of a group are wrapped; ``{{slot}}`` is the message. RisuAI's own if empty."""
    group_other_bot_role: str = "user"
    """The role of messages of the other members of a group."""
    system_content_replacement: str = ""
    """How system messages are written for models that do not accept them; ``{{slot}}`` is the message."""
    system_role_replacement: str = "user"
    """The role of such messages."""
    use_instruct_prompt: bool = False
    """True to write one prompt text instead of messages."""
    instruct_chat_template: str = "chatml"
    """The chat template of that text, such as ``chatml``; ``jinja`` uses ``jinja_template``."""
    jinja_template: str = ""
    """A chat template in Jinja."""
    ooba_format: OobaFormat = field(default_factory=OobaFormat)
    """The texts around messages for a text-generation server (Oobabooga)."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> Preset:
        """Read a preset object; missing keys get defaults.

        Args:
            data: The parsed file.
            warn: Called with each warning.
        """
        reader = JsonReader(data, "preset", warn)
        template, settings, ooba = data.get("promptTemplate"), data.get("promptSettings"), reader.object("ooba")
        formating = ooba.get("formating")
        return cls(
            name=reader.text("name", cls_default("name")),
            main_prompt=_optional_text(data, "mainPrompt"),
            jailbreak=_optional_text(data, "jailbreak"),
            global_note=reader.text("globalNote"),
            formating_order=with_persona_prompt(reader.texts("formatingOrder", DEFAULT_ORDER)),
            prompt_preprocess=reader.flag("promptPreprocess"),
            prompt_template=read_cards(template, warn) if is_sequence(template) else None,
            prompt_settings=PromptSettings.from_json(settings, warn) if is_mapping(settings) else PromptSettings(),
            max_context=reader.integer("maxContext", 4000),
            max_response=reader.integer("maxResponse", 300),
            temperature=reader.number("temperature", 80),
            frequency_penalty=reader.number("frequencyPenalty", 70),
            presence_penalty=reader.number("PresensePenalty", 70),
            top_p=reader.number("top_p", 1),
            ai_model=reader.text("aiModel", DEFAULT_MODEL),
            sub_model=reader.text("subModel", DEFAULT_MODEL),
            regex=reader.objects("regex"),
            custom_prompt_template_toggle=reader.text("customPromptTemplateToggle"),
            template_default_variables=reader.text("templateDefaultVariables"),
            module_integration=reader.text("moduleIntergration"),
            group_template=reader.text("groupTemplate"),
            group_other_bot_role=reader.text("groupOtherBotRole", "user"),
            system_content_replacement=reader.text("systemContentReplacement"),
            system_role_replacement=reader.text("systemRoleReplacement", "user"),
            use_instruct_prompt=reader.flag("useInstructPrompt"),
            instruct_chat_template=reader.text("instructChatTemplate", "chatml"),
            jinja_template=reader.text("JinjaTemplate"),
            ooba_format=OobaFormat.from_json(formating) if is_mapping(formating) else OobaFormat(),
            raw=freeze_object(data),
        )

    @classmethod
    def from_database(cls, database: Mapping[str, object], *, warn: Warn = log_warning) -> Preset:
        """Read the active preset of RisuAI's database, where some keys have other names.

        The rest of the database, with API keys, does not become part of the preset.

        Args:
            database: The parsed database.
            warn: Called with each warning.
        """
        value = {**DATABASE_DEFAULTS, **preset_from_database(database, _stored_preset(database))}
        return cls.from_json(value, warn=warn)

    @classmethod
    def load(
        cls,
        source: FileContent,
        *,
        name: str = "",
        warn: Warn = log_warning,
        strict: bool = False,
    ) -> Preset:
        """Read ``.json``, ``.risupreset`` or ``.risup``, RisuAI's or a SillyTavern chat preset.

        The kind is recognised by the content. ``name`` is the file name, if the file is given as bytes.

        Args:
            source: The file: its path or its content.
            name: The file name, if the file is given as bytes.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        from tavernkit.risu_ai._files.preset_file import read_preset

        content = read_file(source, MAX_PRESET_BYTES, limit="MAX_PRESET_BYTES")
        if not isinstance(source, bytes):
            name = name or Path(source).name
        return read_preset(content, name=name, warn=refuse_warning if strict else warn)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the preset; the file extension decides the format: ``.json``, ``.risupreset`` or ``.risup``."""
        from tavernkit.risu_ai._files.preset_file import write_preset

        target = Path(path)
        write_atomically(target, write_preset(self, target.suffix.lower()))

    def replace(self, **changes: object) -> Preset:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def to_json(self) -> JsonObject:
        """Write the preset with RisuAI's keys; unchanged keys stay as they were read."""
        written = thaw_object(self.raw)
        before = _QUIET_DEFAULT if not self.raw else Preset.from_json(self.raw, warn=_ignore)
        for attribute, key in _KEYS.items():
            value = getattr(self, attribute)
            if value != getattr(before, attribute) or (not self.raw and value is not None):
                written[key] = _plain(value)
        if self.ooba_format != before.ooba_format:
            ooba = written.get("ooba")
            formating: Json = dict(self.ooba_format.to_json())
            written["ooba"] = {**(ooba if isinstance(ooba, dict) else {}), "formating": formating}
        return written

    @property
    def context_window_tokens(self) -> int:
        """The same as ``max_context``."""
        return self.max_context

    @property
    def reserved_response_tokens(self) -> int:
        """The same as ``max_response``."""
        return self.max_response

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens left for the prompt."""
        return max_prompt_tokens(self.max_context, self.max_response)


def cls_default(name: str) -> str:
    """The default of a text field of ``Preset``."""
    return str(next(each.default for each in dataclasses.fields(Preset) if each.name == name))


def with_persona_prompt(order: Sequence[str]) -> tuple[str, ...]:
    """Put ``personaPrompt`` before ``main`` in an order that has none, as RisuAI does when it loads a preset."""
    found = list(order)
    if "personaPrompt" not in found:
        # Without `main` RisuAI's index is -1: before the last part.
        found.insert(found.index("main") if "main" in found else -1, "personaPrompt")
    return tuple(found)


_KEYS: Mapping[str, str] = {
    "name": "name",
    "main_prompt": "mainPrompt",
    "jailbreak": "jailbreak",
    "global_note": "globalNote",
    "formating_order": "formatingOrder",
    "prompt_preprocess": "promptPreprocess",
    "prompt_template": "promptTemplate",
    "prompt_settings": "promptSettings",
    "max_context": "maxContext",
    "max_response": "maxResponse",
    "temperature": "temperature",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "PresensePenalty",
    "top_p": "top_p",
    "ai_model": "aiModel",
    "sub_model": "subModel",
    "regex": "regex",
    "custom_prompt_template_toggle": "customPromptTemplateToggle",
    "template_default_variables": "templateDefaultVariables",
    "module_integration": "moduleIntergration",
    "group_template": "groupTemplate",
    "group_other_bot_role": "groupOtherBotRole",
    "system_content_replacement": "systemContentReplacement",
    "system_role_replacement": "systemRoleReplacement",
    "use_instruct_prompt": "useInstructPrompt",
    "instruct_chat_template": "instructChatTemplate",
    "jinja_template": "JinjaTemplate",
}


_OTHER_KEYS = (
    *("top_k", "min_p", "top_a", "repetition_penalty", "thinkingTokens", "reasoningEffort", "verbosity"),
    *("ooba", "bias", "customAPIFormat"),
)
"""Keys of a preset that are read where requests are written."""


def preset_in_database(preset: Mapping[str, object]) -> JsonObject:
    """Return the keys of RisuAI's database that switching to a preset sets; missing ones get defaults."""
    typed = Preset.from_json(preset, warn=_ignore)
    laid: JsonObject = {key: thaw(value) for key, value in preset.items() if key not in ("name", "image")}
    for attribute, key in _KEYS.items():
        if key not in laid and key != "name":
            laid[key] = _plain(getattr(typed, attribute))
    return {DATABASE_KEYS.get(key, key): value for key, value in laid.items()}


def preset_from_database(database: Mapping[str, object], old: Mapping[str, object]) -> JsonObject:
    """Return a stored preset with the live values of the database, as RisuAI stores it before it switches.

    Args:
        database: RisuAI's database.
        old: The stored copy, whose name and picture stay.
    """
    keys = dict.fromkeys((*_KEYS.values(), *_OTHER_KEYS, *old))  # in this order, so that it makes the same file
    live = {key: DATABASE_KEYS.get(key, key) for key in keys if key not in ("name", "image")}
    kept: JsonObject = {key: thaw(value) for key, value in old.items() if key not in live}
    return kept | {key: thaw(database[name]) for key, name in live.items() if name in database}


def _stored_preset(database: Mapping[str, object]) -> Mapping[str, object]:
    """Return the stored copy of the active preset, with its name and keys that only some presets have."""
    presets, index = database.get("botPresets"), database.get("botPresetsId")
    if not is_sequence(presets) or not isinstance(index, int) or not 0 <= index < len(presets):
        return EMPTY_OBJECT
    stored = presets[index]
    return stored if is_mapping(stored) else EMPTY_OBJECT


def _optional_text(value: Mapping[str, object], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None


def _ignore(_: str) -> None:
    pass


def _plain(value: object) -> Json:
    if isinstance(value, PromptSettings):
        return value.to_json()
    if isinstance(value, tuple) and value and not isinstance(value[0], (str, Mapping)):
        return [write_card(card) for card in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # a template
    return thaw(value)  # pyright: ignore[reportUnknownArgumentType]  # texts, numbers and lists of JSON


_QUIET_DEFAULT = Preset()
