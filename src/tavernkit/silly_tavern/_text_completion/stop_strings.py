"""Strings at which the model stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._values import is_list
from tavernkit.errors import Warn
from tavernkit.silly_tavern._templates.templates import NOBODY, ContextTemplate, InstructTemplate, replace_name


def template_stop_strings(
    instruct: InstructTemplate,
    context: ContextTemplate,
    *,
    user_name: str,
    character_name: str,
    expand: Callable[[str], str],
) -> list[str]:
    """Return the lines of the instruct template's sequences, then the context template's separators."""
    found: list[str] = []
    if instruct.enabled:
        for line in dict.fromkeys(_lines(instruct, user_name, character_name)):
            if trim(line):
                text = instruct.separator + line
                found.append(expand(text) if instruct.macro else text)
    if context.use_stop_strings:
        found += [f"\n{expand(text)}" for text in (context.chat_start, context.example_separator) if text]
    return found


def _lines(instruct: InstructTemplate, user_name: str, character_name: str) -> list[str]:
    sequences = [instruct.stop_sequence]
    if instruct.sequences_as_stop_strings:
        sequences += [
            replace_name(instruct.input_sequence, user_name),
            replace_name(instruct.output_sequence, character_name),
            replace_name(instruct.first_output_sequence, character_name),
            replace_name(instruct.last_output_sequence, character_name),
            replace_name(instruct.system_sequence, NOBODY),
            replace_name(instruct.last_system_sequence, NOBODY),
        ]
    return "\n".join(sequences).split("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopInput:
    """The inputs of stop strings; ``members`` are the names of a group, ``once`` strings of this generation only."""

    instruct: InstructTemplate
    """The instruct template."""
    context: ContextTemplate
    """The context template."""
    user_name: str
    """The user's name."""
    character_name: str
    """The character's name."""
    members: Sequence[str] = ()
    impersonate: bool = False
    """True if the model writes for the user."""
    continues_user: bool = False
    """True if a user's message is continued."""
    custom: Sequence[str] = field(default_factory=tuple[str, ...])
    """The user's own stop strings."""
    once: Sequence[str] = ()
    expand: Callable[[str], str]
    """Expands the macros of a text."""
    expand_custom: bool = True
    """True to expand macros in ``custom``."""


def stop_strings(given: StopInput) -> list[str]:
    """Return the stop strings in SillyTavern's order, without duplicates."""
    user, character = f"\n{given.user_name}:", f"\n{given.character_name}:"
    found: list[str] = ["\n"] if given.context.single_line else []
    if given.context.names_as_stop_strings:
        found += [character if given.impersonate else user, user]
        if given.continues_user:
            found.append(character)
        found += [f"\n{name}:" for name in given.members if name and name != given.character_name]
    found += template_stop_strings(
        given.instruct,
        given.context,
        user_name=given.user_name,
        character_name=given.character_name,
        expand=given.expand,
    )
    found += [given.expand(text) for text in given.custom] if given.expand_custom else given.custom
    found += given.once
    return [text for text in dict.fromkeys(found) if text]


def custom_stop_strings(setting: str, warn: Warn) -> list[str]:
    """Read ``custom_stopping_strings``: a JSON list; only texts count.

    Args:
        setting: The setting's text.
        warn: Called with each warning.
    """
    if not setting:
        return []
    try:
        value: object = json.loads(setting, parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        warn(f"custom_stopping_strings is not JSON and is not used: {error}")
        return []
    if not is_list(value):
        warn(f"custom_stopping_strings is not a JSON list and is not used: {setting:.60}")
        return []
    texts = [text for text in value if isinstance(text, str)]
    if len(texts) < len(value):
        warn(f"custom_stopping_strings: {len(value) - len(texts)} items are not texts and are not used")
    return [text for text in texts if text]


def _no_json(word: str) -> None:
    """Refuse JSON that Python accepts but JavaScript does not."""
    raise ValueError(f"{word} is not JSON")
