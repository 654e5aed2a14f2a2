"""The templates of text completion: context, instruct, system prompt and reasoning, each one JSON object in a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import ClassVar, Literal, Self

from tavernkit._atomic import write_atomically
from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import truthy
from tavernkit._text.json_reader import JsonReader
from tavernkit._text.traced import added, substitute
from tavernkit._values import EMPTY_OBJECT, FrozenObject, Json, JsonObject, freeze_object, is_mapping, thaw, thaw_object
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._kinds import FileKind, warn_if_mistaken
from tavernkit.cards._source import FileContent, called, read_file, stem
from tavernkit.errors import FileFormatError, Warn, log_warning
from tavernkit.silly_tavern.errors import InvalidContextTemplateError, InvalidInstructError

MAX_TEMPLATE_BYTES = 16 * 1024 * 1024
"""A template file larger than this is not read."""

_OWN = frozenset({"name", "source"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFile:
    """A template with a name. Attributes have the file's own keys; ``source`` is the file as it was read.

    The live copy of a template in ``settings.json`` has the same keys; it keeps its name under ``preset``.
    """

    kind: ClassVar[str] = "template"
    kinds: ClassVar[tuple[FileKind, ...]] = ()
    """The kinds of files that it may be."""
    error: ClassVar[type[FileFormatError]] = FileFormatError
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The allowed values of keys; the first one replaces invalid values."""

    name: str = ""
    """What the template is called."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> Self:
        """Read a file; wrong values in it are reported and replaced, or raise when ``strict``.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        warn = cls._refuse if strict else warn
        try:
            content = read_file(source, MAX_TEMPLATE_BYTES, limit="MAX_TEMPLATE_BYTES")
            data = parse_json(content, what=called(source), warn=warn)
        except FileFormatError as error:
            raise cls.error(str(error)) from error
        warn_if_mistaken(data, f"the {cls.kind}", *cls.kinds, what=called(source), warn=warn)
        return cls.from_json(data, name=stem(source), warn=warn)

    @classmethod
    def from_json(cls, data: object, *, name: str = "", warn: Warn = log_warning) -> Self:
        """Read parsed JSON; ``name`` is used if the object has none.

        Args:
            data: The parsed file.
            name: Its name, if the object has none.
            warn: Called with each warning.
        """
        if not is_mapping(data):
            raise cls.error(f"the {cls.kind} is not a JSON object, but {type(data).__name__}")
        named = data.get(_name_key(data))
        title = named if isinstance(named, str) and named else name
        reader = JsonReader(cls.migrated(data), f"{cls.kind} {title!r}" if title else cls.kind, warn)
        values = {key: cls._read(reader, key, default) for key, default in _defaults(cls).items()}
        return cls(name=title, source=freeze_object(data), **values)  # pyright: ignore[reportArgumentType]  # read by the type of each default

    @classmethod
    def migrated(cls, data: Mapping[str, object]) -> JsonObject:
        """Return the object in the current format."""
        return {key: thaw(value) for key, value in data.items()}

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the known keys."""
        return tuple(_defaults(cls))

    def to_json(self) -> JsonObject:
        """Return the template in file format, with all changes and unknown keys."""
        if not self.source:
            return {"name": self.name, **{key: thaw(getattr(self, key)) for key in self.field_names()}}
        then = type(self).from_json(self.source, name=self.name, warn=_silent)
        changed: JsonObject = {
            key: thaw(getattr(self, key)) for key in self.field_names() if getattr(self, key) != getattr(then, key)
        }
        if self.name != then.name:
            changed[_name_key(self.source)] = self.name
        return {**self.migrated(self.source), **changed} if changed else thaw_object(self.source)

    def dumps(self) -> str:
        """Return the template as text, formatted like SillyTavern's export."""
        return dump_json(self.to_json(), indent=4)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the template to a file."""
        write_atomically(Path(path), self.dumps().encode())

    def replace(self, **changes: object) -> Self:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    @classmethod
    def _read(cls, reader: JsonReader, key: str, default: object) -> object:
        if isinstance(default, bool):
            return reader.flag(key, default)
        if isinstance(default, int):
            return reader.integer(key, default)
        value = reader.text(key, str(default))
        allowed = cls.choices.get(key)
        if allowed is None or value in allowed:
            return value
        reader.warn(f"{reader.where}: {key} should be one of {', '.join(allowed)}, not {value!r:.60}")
        return allowed[0]

    @classmethod
    def _refuse(cls, message: str) -> None:
        raise cls.error(message)


def _defaults(cls: type[TemplateFile]) -> dict[str, object]:
    return {each.name: each.default for each in dataclasses.fields(cls) if each.name not in _OWN}


def _name_key(data: Mapping[str, object]) -> str:
    return "preset" if "preset" in data and "name" not in data else "name"


def _silent(_message: str) -> None:
    """Ignore a warning: the same data was already read with warnings."""


NamesBehavior = Literal["none", "force", "always"]
"""When names are written before messages."""

ADDED_KEYS: Mapping[str, Json] = {
    "input_suffix": "",
    "system_sequence": "",
    "system_suffix": "",
    "user_alignment_message": "",
    "last_system_sequence": "",
    "first_input_sequence": "",
    "last_input_sequence": "",
    "story_string_prefix": "",
    "story_string_suffix": "",
    "skip_examples": False,
    "system_same_as_user": False,
    "names_behavior": "force",
    "sequences_as_stop_strings": True,
}
"""Keys that older templates lack, and what they get."""

LIVE_ONLY = frozenset({"enabled", "bind_to_context"})
"""Keys of the live settings that are not part of a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructTemplate(TemplateFile):
    """Sequences around messages, and the switches of instruct mode.

    A template read from a file is ``enabled``; the live copy in the settings has its own value. ``bind_to_context``
    selects the context template of the same name with it.
    """

    kind: ClassVar[str] = "instruct template"
    kinds: ClassVar[tuple[FileKind, ...]] = (FileKind.INSTRUCT_TEMPLATE,)
    error: ClassVar[type[FileFormatError]] = InvalidInstructError
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"names_behavior": ("none", "force", "always")}

    enabled: bool = True
    input_sequence: str = "### Instruction:"
    """The text before a user's message."""
    input_suffix: str = ""
    """The text after a user's message."""
    output_sequence: str = "### Response:"
    """The text before a character's message."""
    output_suffix: str = ""
    """The text after a character's message."""
    system_sequence: str = ""
    """The text before a system message."""
    system_suffix: str = ""
    """The text after a system message."""
    first_input_sequence: str = ""
    """``input_sequence`` of the first user's message; empty for the usual one."""
    last_input_sequence: str = ""
    """``input_sequence`` of the last user's message; empty for the usual one."""
    first_output_sequence: str = ""
    """``output_sequence`` of the first character's message; empty for the usual one."""
    last_output_sequence: str = ""
    """``output_sequence`` of the line where the reply begins; empty for the usual one."""
    last_system_sequence: str = ""
    """The sequence at the end of a prompt that asks as the system; empty for the usual one."""
    story_string_prefix: str = ""
    """The text before the story string."""
    story_string_suffix: str = ""
    """The text after the story string."""
    stop_sequence: str = ""
    """The string at which the model stops."""
    user_alignment_message: str = ""
    """A user's message for the start of a chat that would begin with the character."""
    activation_regex: str = ""
    """Selects the template when the name of the model matches."""
    wrap: bool = True
    """True to put line breaks around sequences."""
    macro: bool = True
    """True to expand macros in sequences."""
    names_behavior: NamesBehavior = "force"
    """When names are put before messages: ``none``, ``force`` (groups and other names), ``always``."""
    skip_examples: bool = False
    """True to leave example dialogue unformatted."""
    system_same_as_user: bool = False
    """True to write system messages like the user's."""
    sequences_as_stop_strings: bool = True
    """True to stop at the sequences."""
    bind_to_context: bool = False

    @classmethod
    def off(cls) -> InstructTemplate:
        """Return instruct mode switched off, with empty sequences."""
        return cls(enabled=False, input_sequence="", output_sequence="", wrap=False)

    @classmethod
    def migrated(cls, data: Mapping[str, object]) -> JsonObject:
        """Return the template with current keys: old ones are renamed or dropped, missing ones added."""
        plain = TemplateFile.migrated(data)
        if "separator_sequence" in plain:  # replaces even a suffix that the file has
            plain["output_suffix"] = plain.pop("separator_sequence") or ""
        if "names" in plain:
            groups_only = "force" if truthy(plain.get("names_force_groups")) else "none"
            plain["names_behavior"] = "always" if truthy(plain["names"]) else groups_only
        for key, value in ADDED_KEYS.items():
            plain.setdefault(key, value)
        for key in ("names", "names_force_groups", "system_sequence_prefix", "system_sequence_suffix"):
            plain.pop(key, None)
        return plain

    def with_preset(self, preset: InstructTemplate) -> InstructTemplate:
        """Return these settings after selecting a preset: values that its file does not have stay unchanged."""
        known = self.migrated(preset.source) if preset.source else preset.to_json()
        taken = {key: getattr(preset, key) for key in self.field_names() if key in known and key not in LIVE_ONLY}
        return self.replace(name=preset.name, **taken)

    @property
    def separator(self) -> str:
        """The separator between a sequence and its text."""
        return added("\n", "wrap") if self.wrap else ""


NOBODY = "System"
"""The default name of a message."""

NAME_MACRO = ("name",)
"""The macro that expansion must leave in a sequence."""

_NAME = "{{name}}"
_ANY_CASE = re.compile(r"\{\{name\}\}", re.IGNORECASE | re.ASCII)


def replace_name(text: str, name: str) -> str:
    """Put a name into a sequence. ``$&`` and similar patterns in it are special, as in a JavaScript replacement."""
    if "{{" not in text or _NAME not in text.lower():
        return text
    if type(text) is not str and "$" not in name:
        return substitute(_ANY_CASE, lambda _found: name or NOBODY, text, kind="expanded", name="name")
    return JSRegex.compile(r"\{\{name\}\}", "gi").replace(text, name or NOBODY)


IN_PROMPT, IN_CHAT = 0, 1
"""Places of the story string: before the prompt (every number except 1), or in the chat at a depth."""

DEFAULT_STORY_STRING = (
    "{{#if system}}{{system}}\n{{/if}}{{#if description}}{{description}}\n{{/if}}{{#if personality}}{{char}}'s "
    "personality: {{personality}}\n{{/if}}{{#if scenario}}Scenario: {{scenario}}\n{{/if}}{{#if persona}}{{persona}}\n"
    "{{/if}}"
)

KEPT_TEXTS = ("story_string", "chat_start", "example_separator")
"""Keys that stay unchanged if a selected template does not have them; others get their default."""

_TRIM = "{{trim}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTemplate(TemplateFile):
    """The story string and its place, the line before the chat, and what separates example dialogue.

    In the settings, the last three keys are outside the context template; a template file has them too.
    """

    kind: ClassVar[str] = "context template"
    kinds: ClassVar[tuple[FileKind, ...]] = (FileKind.CONTEXT_TEMPLATE,)
    error: ClassVar[type[FileFormatError]] = InvalidContextTemplateError

    story_string: str = DEFAULT_STORY_STRING
    """The template of the part before the chat, in Handlebars."""
    chat_start: str = "***"
    """The line before the chat."""
    example_separator: str = "***"
    """The line before each block of example dialogue."""
    use_stop_strings: bool = False
    """True to stop at ``chat_start`` and ``example_separator``."""
    names_as_stop_strings: bool = True
    """True to stop where a participant's name begins a line."""
    story_string_position: int = IN_PROMPT
    """Where the story string goes: 0 at the start, 1 in the chat."""
    story_string_depth: int = 1
    """Messages between it and the end of the chat, if it is in the chat."""
    story_string_role: int = 0
    """Its role in the chat: 0 system, 1 user, 2 assistant."""
    always_force_name2: bool = True
    """True to end the prompt with the character's name."""
    trim_sentences: bool = False
    """True to cut off unfinished sentences of replies."""
    single_line: bool = False
    """True to stop at the first line break."""

    @classmethod
    def migrated(cls, data: Mapping[str, object]) -> JsonObject:
        """Add the anchors for injections to an old template."""
        plain = TemplateFile.migrated(data)
        story = plain.get("story_string")
        if "story_string_position" not in plain and isinstance(story, str):
            plain["story_string"] = with_anchors(story)
        return plain

    def with_preset(self, preset: ContextTemplate) -> ContextTemplate:
        """Return these settings after selecting a preset: texts that its file does not have stay unchanged."""
        known = preset.source or preset.to_json()
        kept = {key: getattr(self, key) for key in KEPT_TEXTS if key not in known}
        return preset.replace(source=self.source, **kept)

    @property
    def in_chat(self) -> bool:
        """True if the story string is in the chat."""
        return self.story_string_position == IN_CHAT


def with_anchors(story: str) -> str:
    """Add the placeholders of texts injected before and after it to a story string."""
    if "{{anchorBefore}}" not in story:
        place = max(story.find("{{"), 0)
        story = f"{story[:place]}{{{{#if anchorBefore}}}}{{{{anchorBefore}}}}\n{{{{/if}}}}{story[place:]}"
    if "{{anchorAfter}}" not in story:
        trim, end = story.rfind(_TRIM), story.rfind("}}")
        # The last ``{{trim}}`` keeps its place at the end.
        place = min(trim if trim >= 0 else len(story), end + 2 if end >= 0 else len(story))
        story = f"{story[:place]}{{{{#if anchorAfter}}}}{{{{anchorAfter}}}}\n{{{{/if}}}}{story[place:]}"
    return story


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPrompt(TemplateFile):
    """``content`` goes to the start of the prompt, ``post_history`` after the chat; a card may replace either."""

    kind: ClassVar[str] = "system prompt"

    enabled: bool = True
    """False if text completion does not use it."""
    content: str = ""
    post_history: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningSettings(TemplateFile):
    """A reasoning template (``name``, ``prefix``, ``suffix``, ``separator``) and the settings around it."""

    kind: ClassVar[str] = "reasoning template"

    prefix: str = "<think>"
    suffix: str = "</think>"
    separator: str = "\n"
    auto_parse: bool = False
    """Move a marked block at the start of a reply to the reasoning field."""
    add_to_prompts: bool = False
    """Send the reasoning of earlier replies with the chat."""
    max_additions: int = 1
    """How many of the newest replies are sent with their reasoning."""
