"""Template files of any kind, recognised by their keys, and master files with several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, freeze_object, is_mapping, thaw_object
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._source import FileContent, called, read_file
from tavernkit.errors import FileFormatError, Warn, log_warning, refuse_warning
from tavernkit.silly_tavern._templates.templates import (
    MAX_TEMPLATE_BYTES,
    ContextTemplate,
    InstructTemplate,
    ReasoningSettings,
    SystemPrompt,
)

SECTION_KEYS: Mapping[str, tuple[str, ...]] = {
    "instruct": ("name", "input_sequence", "output_sequence"),
    "context": ("name", "story_string"),
    "sysprompt": ("name", "content"),
    "preset": ("temp", "top_k", "top_p", "rep_pen"),
    "reasoning": ("name", "prefix", "suffix", "separator"),
}
"""Kinds of files in the order they are tried, and the keys each must have."""

START_REPLY_WITH = "srw"


@dataclass(frozen=True, slots=True)
class TemplateBundle:
    """The content of a template file or master file; ``preset`` (samplers) and unknown sections are kept as read."""

    instruct: InstructTemplate | None = None
    """The instruct template."""
    context: ContextTemplate | None = None
    """The context template."""
    system_prompt: SystemPrompt | None = None
    """The system prompt."""
    reasoning: ReasoningSettings | None = None
    """The reasoning template."""
    preset: FrozenObject | None = None
    start_reply_with: str | None = None
    """The text that every reply starts with."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """The JSON that it was read from."""

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> TemplateBundle:
        """Read a file of any of these kinds; wrong values in it are reported and replaced, or raise when ``strict``.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        warn = refuse_warning if strict else warn
        content = read_file(source, MAX_TEMPLATE_BYTES, limit="MAX_TEMPLATE_BYTES")
        return cls.from_json(parse_json(content, what=called(source), warn=warn), warn=warn)

    @classmethod
    def from_json(cls, data: object, *, warn: Warn = log_warning) -> TemplateBundle:
        """Read parsed JSON: one template, or an object with sections.

        Args:
            data: The parsed file.
            warn: Called with each warning.

        Raises:
            FileFormatError: The file contains no template.
        """
        if not is_mapping(data):
            raise FileFormatError(f"a template file is a JSON object, not {type(data).__name__}")
        kind = kind_of(data)
        sections: Mapping[str, object] = {kind: data} if kind is not None else data
        found: dict[str, Mapping[str, object]] = {}
        for name, keys in SECTION_KEYS.items():
            section = sections.get(name)
            if is_mapping(section) and all(key in section for key in keys):
                found[name] = section
            elif section is not None:
                warn(f"template file: the section {name!r} lacks one of {', '.join(keys)} and is not used")
        reply = sections.get(START_REPLY_WITH)
        text = reply.get("value") if is_mapping(reply) else None
        if not found and not isinstance(text, str):
            raise FileFormatError("this is not a template file: it has the keys of none of SillyTavern's templates")
        return cls(
            instruct=InstructTemplate.from_json(found["instruct"], warn=warn) if "instruct" in found else None,
            context=ContextTemplate.from_json(found["context"], warn=warn) if "context" in found else None,
            system_prompt=_system_prompt(found, warn),
            reasoning=ReasoningSettings.from_json(found["reasoning"], warn=warn) if "reasoning" in found else None,
            preset=freeze_object(found["preset"]) if "preset" in found else None,
            start_reply_with=text if isinstance(text, str) else None,
            source=freeze_object(data),
        )

    def to_json(self) -> JsonObject:
        """Return the file with all changes and unknown keys. A new bundle becomes a master file."""
        parts: dict[str, JsonObject] = {}
        for name, template in (
            ("instruct", self.instruct),
            ("context", self.context),
            ("sysprompt", self.system_prompt),
            ("reasoning", self.reasoning),
        ):
            if template is not None:
                parts[name] = template.to_json()
        kind = kind_of(self.source)
        if kind is not None and not parts.keys() - {kind, *(("sysprompt",) if "system_prompt" in self.source else ())}:
            return parts.get(kind) or thaw_object(self.source)
        plain = thaw_object(self.source) if kind is None else {}
        plain.update(parts)
        if self.preset is not None:
            plain["preset"] = thaw_object(self.preset)
        if self.start_reply_with is not None:
            reply = plain.get(START_REPLY_WITH)
            kept = reply if isinstance(reply, dict) else {"show": False}
            plain[START_REPLY_WITH] = {**kept, "value": self.start_reply_with}
        return plain

    def dumps(self) -> str:
        """The file as text."""
        return dump_json(self.to_json(), indent=4)


def _system_prompt(sections: Mapping[str, Mapping[str, object]], warn: Warn) -> SystemPrompt | None:
    """The system prompt; older instruct templates have it inside."""
    if "sysprompt" in sections:
        return SystemPrompt.from_json(sections["sysprompt"], warn=warn)
    instruct = sections.get("instruct", EMPTY_OBJECT)
    legacy, name = instruct.get("system_prompt"), instruct.get("name")
    return SystemPrompt(name=str(name), content=legacy) if isinstance(legacy, str) and legacy else None


def kind_of(data: Mapping[str, object]) -> str | None:
    """Return the kind of a single template by its keys; None for a master file."""
    return next((kind for kind, keys in SECTION_KEYS.items() if all(key in data for key in keys)), None)
