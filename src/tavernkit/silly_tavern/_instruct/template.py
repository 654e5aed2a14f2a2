"""The instruct template: what stands around each message of a text-completion prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import truthy
from tavernkit._text.traced import added
from tavernkit._values import Json, JsonObject
from tavernkit.errors import FileFormatError
from tavernkit.silly_tavern._files.template_file import TemplateFile
from tavernkit.silly_tavern.errors import InvalidInstructError

NamesBehavior = Literal["none", "force", "always"]
"""When names are written in front of messages."""

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

    A template read from a file is ``enabled``; the live copy in the settings says so itself. ``bind_to_context``
    selects the context template of the same name with it.
    """

    kind: ClassVar[str] = "instruct template"
    error: ClassVar[type[FileFormatError]] = InvalidInstructError
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"names_behavior": ("none", "force", "always")}

    enabled: bool = True
    input_sequence: str = "### Instruction:"
    input_suffix: str = ""
    output_sequence: str = "### Response:"
    output_suffix: str = ""
    system_sequence: str = ""
    system_suffix: str = ""
    first_input_sequence: str = ""
    last_input_sequence: str = ""
    first_output_sequence: str = ""
    last_output_sequence: str = ""
    last_system_sequence: str = ""
    story_string_prefix: str = ""
    story_string_suffix: str = ""
    stop_sequence: str = ""
    user_alignment_message: str = ""
    activation_regex: str = ""
    wrap: bool = True
    macro: bool = True
    names_behavior: NamesBehavior = "force"
    skip_examples: bool = False
    system_same_as_user: bool = False
    sequences_as_stop_strings: bool = True
    bind_to_context: bool = False

    @classmethod
    def off(cls) -> InstructTemplate:
        """Instruct mode switched off, with nothing in any sequence."""
        return cls(enabled=False, input_sequence="", output_sequence="", wrap=False)

    @classmethod
    def migrated(cls, data: Mapping[str, object]) -> JsonObject:
        """The template with today's keys: old ones are renamed or dropped, missing ones added."""
        plain = TemplateFile.migrated(data)
        if "separator_sequence" in plain:
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
        """These settings after a preset was selected: what its file does not say stays as it is."""
        known = self.migrated(preset.source) if preset.source else preset.to_json()
        taken = {key: getattr(preset, key) for key in self.field_names() if key in known and key not in LIVE_ONLY}
        return self.replace(name=preset.name, **taken)

    @property
    def separator(self) -> str:
        """What stands between a sequence and its text."""
        return added("\n", "wrap") if self.wrap else ""
