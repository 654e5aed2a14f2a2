"""The context template: how the parts of a text-completion prompt are combined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.cards._kinds import FileKind
from tavernkit.errors import FileFormatError
from tavernkit.silly_tavern._files.template_file import TemplateFile
from tavernkit.silly_tavern.errors import InvalidContextTemplateError

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
        place = min(trim if trim >= 0 else len(story), end + 2 if end >= 0 else len(story))
        story = f"{story[:place]}{{{{#if anchorAfter}}}}{{{{anchorAfter}}}}\n{{{{/if}}}}{story[place:]}"
    return story
