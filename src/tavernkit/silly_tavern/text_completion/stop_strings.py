"""Where the model shall stop."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tavernkit.errors import Warn
from tavernkit.silly_tavern.context_template.template import ContextTemplate
from tavernkit.silly_tavern.instruct.stop_strings import template_stop_strings
from tavernkit.silly_tavern.instruct.template import InstructTemplate
from tavernkit.values import is_list


@dataclass(frozen=True, slots=True, kw_only=True)
class StopInput:
    """What stop strings depend on; ``members`` are the names of a group, ``once`` strings of this generation only."""

    instruct: InstructTemplate
    context: ContextTemplate
    user_name: str
    character_name: str
    members: Sequence[str] = ()
    impersonate: bool = False
    continues_user: bool = False
    custom: Sequence[str] = field(default_factory=tuple[str, ...])
    once: Sequence[str] = ()
    expand: Callable[[str], str]
    expand_custom: bool = True


def stop_strings(given: StopInput) -> list[str]:
    """The stop strings in SillyTavern's order, each once."""
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
    """Read ``custom_stopping_strings``: a JSON list, of which only texts count."""
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
    """Refuse what Python reads in JSON and JavaScript does not."""
    raise ValueError(f"{word} is not JSON")
