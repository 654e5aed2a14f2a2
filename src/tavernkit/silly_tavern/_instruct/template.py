"""The instruct template: what is around each message of a text-completion prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import truthy
from tavernkit._text.traced import added, substitute
from tavernkit._values import Json, JsonObject
from tavernkit.cards._kinds import FileKind
from tavernkit.errors import FileFormatError
from tavernkit.silly_tavern._files.template_file import TemplateFile
from tavernkit.silly_tavern.errors import InvalidInstructError

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
