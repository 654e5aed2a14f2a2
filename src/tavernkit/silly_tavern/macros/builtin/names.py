"""Who is who."""

from __future__ import annotations

from tavernkit.silly_tavern.macros.call import MacroCall
from tavernkit.silly_tavern.macros.registry import MacroRegistry
from tavernkit.text.traced import join

macros = MacroRegistry()


@macros.macro("user", category="names")
def user(call: MacroCall) -> str:
    """The user's name."""
    return call.run.user_name


@macros.macro("char", category="names")
def char(call: MacroCall) -> str:
    """The character's name."""
    return call.run.character_name


@macros.macro("group", hidden_aliases=("charIfNotGroup",), category="names")
def group(call: MacroCall) -> str:
    """The names of all group members; outside of groups, the character's."""
    chat = call.environment.group
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.character_name if chat is None else join(", ", chat.names)


@macros.macro("groupNotMuted", category="names")
def group_not_muted(call: MacroCall) -> str:
    """The names of the group members who are not muted; outside of groups, the character's."""
    chat = call.environment.group
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.character_name if chat is None else join(", ", chat.names_not_muted)


@macros.macro("notChar", category="names")
def not_char(call: MacroCall) -> str:
    """The names of the other group members who are not muted; outside of groups, the user's."""
    chat, own = call.environment.group, call.run.character_name
    if call.run.overrides.group is not None:
        return call.run.overrides.group
    return call.run.user_name if chat is None else join(", ", (name for name in chat.names_not_muted if name != own))
