"""SillyTavern's chat-completion preset: read, checked, changed and written back without loss."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TypeVar, cast

from tavernkit._atomic import write_atomically
from tavernkit._dataclass import dataclass
from tavernkit._lazy import read_data
from tavernkit._text.json_reader import JsonReader
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_object,
    thaw,
    thaw_object,
)
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._kinds import FileKind, warn_if_mistaken
from tavernkit.cards._source import FileContent, called, read_file, stem
from tavernkit.errors import FileFormatError, InvalidPresetError, Warn, log_warning
from tavernkit.silly_tavern._files.preset_migrations import migrate
from tavernkit.silly_tavern._files.preset_prompts import (
    OrderEntry,
    PresetPrompt,
    PromptOrder,
    active_order,
    complete_prompts,
    problems_of,
    read_prompt,
)
from tavernkit.silly_tavern._limits import MAX_PRESET_BYTES

T = TypeVar("T")

SETTINGS_KEYS: Mapping[str, str] = {
    "temperature": "temp_openai",
    "frequency_penalty": "freq_pen_openai",
    "presence_penalty": "pres_pen_openai",
    "top_p": "top_p_openai",
    "top_k": "top_k_openai",
    "top_a": "top_a_openai",
    "min_p": "min_p_openai",
    "repetition_penalty": "repetition_penalty_openai",
}
"""Preset keys that have another name in ``settings.json``."""

SENSITIVE_KEYS = (
    "reverse_proxy",
    "proxy_password",
    "custom_url",
    "custom_include_body",
    "custom_exclude_body",
    "custom_include_headers",
    "vertexai_region",
    "vertexai_express_project_id",
    "azure_base_url",
    "azure_deployment_name",
    "workers_ai_account_id",
)
"""Keys that describe a user's connections and should not be shared."""

CONNECTION_KEYS = ("chat_completion_source", "custom_prompt_post_processing")
"""Keys about the connection, including the model of each source."""

MODEL_KEYS: Mapping[str, str] = {"makersuite": "google_model"}
"""Sources whose model key is not ``<source>_model``."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A chat-completion preset. Attributes have the file's own names; ``get`` reaches every other key of the file.

    Make one with ``load()``, ``from_json()`` or ``default()``, and change it with ``replace()``. Values that the file
    does not have come from ``base`` (the active settings), else from SillyTavern's built-in default. If these settings
    do not bind presets to connections, the connection and its model come from them, not from the file.
    """

    name: str
    """What the preset is called."""
    openai_max_context: int
    """Tokens of the context, including the reply."""
    openai_max_tokens: int
    """Tokens kept for the reply."""
    names_behavior: int
    """How names are shown: -1 never, 0 where they are needed (groups), 1 in the ``name`` field, 2 in the text."""
    send_if_empty: str
    """The user's message that is sent instead of an empty one."""
    impersonation_prompt: str
    """Asks the model to write for the user."""
    new_chat_prompt: str
    """The line before the chat."""
    new_group_chat_prompt: str
    """The line before a group chat."""
    new_example_chat_prompt: str
    """The line before each example dialogue."""
    continue_nudge_prompt: str
    """Asks the model to continue; ``{{lastChatMessage}}`` is the message."""
    group_nudge_prompt: str
    """Asks the next speaker of a group to reply."""
    wi_format: str
    """How lore is wrapped; ``{0}`` is the text."""
    scenario_format: str
    """How the scenario is written."""
    personality_format: str
    """How the personality is written."""
    assistant_prefill: str
    """The start of Claude's reply."""
    assistant_impersonation: str
    """The start of Claude's reply when it writes for the user."""
    use_sysprompt: bool
    """Send a separate system prompt to Claude and Google."""
    squash_system_messages: bool
    """Join system messages that follow each other."""
    continue_prefill: bool
    """Continue by prefilling the reply instead of asking for it."""
    continue_postfix: str
    """What goes between a message and its continuation."""
    function_calling: bool
    """Offer tools to the model."""
    media_inlining: bool
    """Send pictures, videos and sounds."""
    inline_image_quality: str
    """How closely the model looks at pictures: ``auto``, ``low`` or ``high``."""
    show_thoughts: bool
    """Ask for the model's reasoning."""
    tool_reasoning_mode: str
    """Which reasoning is sent back with tool calls: ``disabled`` for none, ``active_chain`` for that of this chain
    only."""
    tool_call_recurse_limit: int
    """How many rounds of tool calls one turn may have."""
    reasoning_effort: str
    """How much the model thinks: ``auto``, ``min``, ``low``, ``medium``, ``high`` or ``max``."""
    verbosity: str
    """How much the model writes: ``auto``, ``low``, ``medium`` or ``high``."""
    chat_completion_source: str
    """The provider, by SillyTavern's name."""
    custom_prompt_post_processing: str
    """How messages are rewritten for strict servers: ``merge``, ``semi``, ``strict``, ``single``, with ``_tools`` to
    keep tool calls; empty for not at all."""
    temperature: float
    """Temperature."""
    frequency_penalty: float
    """Frequency penalty."""
    presence_penalty: float
    """Presence penalty."""
    top_p: float
    """Top P."""
    top_k: float
    """Top K."""
    top_a: float
    """Top A."""
    min_p: float
    """Min P."""
    repetition_penalty: float
    """Repetition penalty."""
    seed: int
    """The seed of the request; -1 for none."""
    n: int
    """How many replies to ask for."""
    stream_openai: bool
    """Ask for replies piece by piece."""
    enable_web_search: bool
    """Let the provider search the web."""
    request_images: bool
    """Ask the model for pictures."""
    request_image_resolution: str
    """The resolution of those pictures."""
    request_image_aspect_ratio: str
    """The aspect ratio of those pictures."""
    custom_url: str
    """The address of the source ``custom``."""
    custom_include_body: str
    """YAML that is added to the body for the source ``custom``."""
    custom_exclude_body: str
    """YAML list of keys that are left out of that body."""
    custom_include_headers: str
    """YAML of headers that are added for the source ``custom``."""
    max_context_unlocked: bool
    """Allow contexts that are larger than SillyTavern's list says."""
    prompts: tuple[PresetPrompt, ...]
    """The prompts of the prompt manager."""
    prompt_order: tuple[PromptOrder, ...]
    """Order lists; only the one with the id 100001 is used."""
    extensions: FrozenObject
    """Data of extensions, such as the preset's regex scripts."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """The JSON that it was read from; unknown keys survive."""
    base: Preset | None = field(default=None, repr=False, compare=False)

    @classmethod
    def default(cls) -> Preset:
        """SillyTavern's built-in default."""
        return _default()

    @classmethod
    def load(
        cls,
        source: FileContent,
        *,
        base: Preset | None = None,
        warn: Warn = log_warning,
        strict: bool = False,
    ) -> Preset:
        """Read a preset file; its name is the file's.

        An unreadable file raises ``InvalidPresetError``; wrong values are reported and replaced, or raise the same
        error if ``strict``.

        Args:
            source: The file: its path or its content.
            base: Values that the file does not have.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        warn = _refuse if strict else warn
        try:
            content = read_file(source, MAX_PRESET_BYTES, limit="MAX_PRESET_BYTES")
            data = parse_json(content, what=called(source), warn=warn)
        except FileFormatError as error:
            raise InvalidPresetError(str(error)) from error
        warn_if_mistaken(data, "a preset", FileKind.PRESET, what=called(source), warn=warn)
        return cls.from_json(data, name=stem(source), base=base, warn=warn)

    @classmethod
    def from_json(cls, data: object, *, name: str = "", base: Preset | None = None, warn: Warn = log_warning) -> Preset:
        """Read a preset from parsed JSON.

        Args:
            data: The parsed file.
            name: What the preset is called.
            base: Values that the file does not have.
            warn: Called with each warning.

        Raises:
            InvalidPresetError: ``data`` is not an object.
        """
        if not is_object(data):
            raise InvalidPresetError(f"a preset is a JSON object, not {type(data).__name__}")
        return _read(data, name, base or _default(), warn)

    @classmethod
    def from_settings(cls, data: Mapping[str, object], *, warn: Warn = log_warning) -> Preset:
        """Read the active preset from ``oai_settings`` of ``settings.json``.

        Args:
            data: The object ``oai_settings``.
            warn: Called with each warning.
        """
        preset_keys = {settings_key: key for key, settings_key in SETTINGS_KEYS.items()}
        renamed: dict[str, Json] = {preset_keys.get(key, key): thaw(value) for key, value in data.items()}
        selected = renamed.get("preset_settings_openai")
        return cls.from_json(renamed, name=selected if isinstance(selected, str) else "", warn=warn)

    def to_json(self) -> JsonObject:
        """Return the preset in file format, with all changes and unknown keys."""
        plain = thaw_object(self.source)
        as_read = _read(self.source, self.name, self.base, _silent)
        for key in _READERS:
            value: object = getattr(self, key)
            if value == getattr(as_read, key):
                continue
            if key in ("prompts", "prompt_order"):
                plain[key] = [each.to_json() for each in cast("tuple[PresetPrompt | PromptOrder, ...]", value)]
            else:
                plain[key] = thaw(value)
        return plain

    def dumps(self) -> str:
        """Return the preset as text, formatted like SillyTavern's export."""
        return dump_json(self.to_json(), indent=4)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the preset to a file."""
        write_atomically(Path(path), self.dumps().encode())

    def replace(self, **changes: object) -> Preset:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def problems(self) -> list[str]:
        """Return problems in the preset: prompts that are never sent, unknown names."""
        return problems_of(self)

    def without_secrets(self) -> Preset:
        """Return a copy without the keys that describe a user's connections."""
        kept = {key: value for key, value in self.source.items() if key not in SENSITIVE_KEYS}
        return _read(kept, self.name, self.base or _default(), _silent)

    def get(self, key: str) -> FrozenJson:
        """Return a value by its key in the file, even if it is not an attribute."""
        return _value(self, key)

    @property
    def model(self) -> str:
        """The model of the current source."""
        value = _value(self, self._model_key)
        return value if isinstance(value, str) else ""

    def with_model(self, model: str) -> Preset:
        """Return a copy for another model of the current source."""
        if self.base is not None and _is_kept(self._model_key, self.base):
            return self.replace(base=self.base.with_model(model))
        return self.replace(source=freeze_object({**self.source, self._model_key: model}))

    @property
    def _model_key(self) -> str:
        source = self.chat_completion_source
        return MODEL_KEYS.get(source, f"{source}_model")

    @property
    def context_window_tokens(self) -> int:
        """The size of the context."""
        return self.openai_max_context

    @property
    def reserved_response_tokens(self) -> int:
        """Tokens reserved for the reply."""
        return self.openai_max_tokens

    @property
    def max_prompt_tokens(self) -> int:
        """The maximum tokens of the prompt."""
        return self.openai_max_context - self.openai_max_tokens

    @property
    def effective_prompts(self) -> tuple[PresetPrompt, ...]:
        """The prompts, including built-in ones that are not in the file."""
        return complete_prompts(self.prompts, _default().prompts)

    @property
    def effective_order(self) -> tuple[OrderEntry, ...]:
        """The order list that is used."""
        return tuple(active_order(self.prompt_order, _default().prompt_order[0].entries))


def _read(data: Mapping[str, object], name: str, base: Preset | None, warn: Warn) -> Preset:
    migrated = migrate(data, name, default_prompts=_default().get("prompts") if base is not None else None)
    reader = JsonReader(migrated, f"preset {name!r}" if name else "preset", warn)
    values: dict[str, object] = {
        key: getattr(base, key)
        if base is not None and (key not in migrated or _is_kept(key, base))
        else read(reader, key)
        for key, read in _READERS.items()
    }
    # The only key whose value is not kept from the settings if the preset does not have it.
    values["extensions"] = reader.object("extensions")
    return Preset(name=name, source=freeze_object(migrated), base=base, **values)  # pyright: ignore[reportArgumentType]  # read by field type


def _value(preset: Preset, key: str) -> FrozenJson:
    if key in preset.source and not _is_kept(key, preset.base):
        return preset.source[key]
    return None if preset.base is None else _value(preset.base, key)


def _is_kept(key: str, base: Preset | None) -> bool:
    """Return True if a key is about the connection, and the active settings keep theirs."""
    connection = key in CONNECTION_KEYS or key.endswith("_model")
    return connection and base is not None and _value(base, "bind_preset_to_connection") is False


def _read_prompts(reader: JsonReader, key: str) -> tuple[PresetPrompt, ...]:
    return tuple(
        read_prompt(item, reader.warn, f"{reader.where}.{key}[{index}]")
        for index, item in enumerate(reader.objects(key))
    )


def _read_orders(reader: JsonReader, key: str) -> tuple[PromptOrder, ...]:
    return tuple(
        PromptOrder.from_json(item, warn=reader.warn, where=f"{reader.where}.{key}[{index}]")
        for index, item in enumerate(reader.objects(key))
    )


_BY_TYPE: Mapping[str, Callable[[JsonReader, str], object]] = {
    "str": lambda reader, key: reader.text(key, _built_in(key, "")),
    "bool": lambda reader, key: reader.flag(key, _built_in(key, False)),
    "int": lambda reader, key: reader.integer(key, _built_in(key, 0)),
    "float": lambda reader, key: reader.number(key, _built_in(key, 0.0)),
    "tuple[PresetPrompt, ...]": _read_prompts,
    "tuple[PromptOrder, ...]": _read_orders,
    "FrozenObject": JsonReader.object,
}
_READERS = {
    field.name: _BY_TYPE[str(field.type)]
    for field in dataclasses.fields(Preset)
    if field.name not in ("name", "source", "base")
}


@cache
def _default_json() -> JsonObject:
    text = read_data("tavernkit.silly_tavern", "default_preset.json")
    return cast("JsonObject", json.loads(text))


@cache
def _default() -> Preset:
    return _read(_default_json(), "Default", None, _silent)


def _built_in(key: str, fallback: T) -> T:
    return cast("T", _default_json().get(key, fallback))


def _silent(_message: str) -> None:
    """Ignore a warning: the same data was already read with warnings."""


def _refuse(message: str) -> None:
    raise InvalidPresetError(message)
