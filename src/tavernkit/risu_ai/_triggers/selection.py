"""Which triggers a run uses, and in what order."""

from __future__ import annotations

from collections.abc import Iterator

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import truthy
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuCharacter
from tavernkit.risu_ai._triggers.program import Trigger, read_triggers


@dataclass(frozen=True, slots=True)
class OwnedTrigger:
    """A trigger with the rights its owner has: low level access comes from the character or the module."""

    trigger: Trigger
    low_level: bool
    owner: str


def acting_character(context: CBSContext) -> RisuCharacter | None:
    """Whose triggers run: the speaking character, else the selected one."""
    speaker = context.speaker
    if isinstance(speaker, RisuCharacter) and not speaker.is_group:
        return speaker
    return context.character


def all_triggers(context: CBSContext, character: RisuCharacter | None) -> list[OwnedTrigger]:
    """The character's triggers, then those of the enabled modules. A group has none of its own."""
    found: list[OwnedTrigger] = []
    if character is not None and not character.is_group:
        access = truthy(character.raw.get("lowLevelAccess"))
        owner = character.name or "the character"
        found += [OwnedTrigger(each, access, owner) for each in read_triggers(character.raw.get("triggerscript"))]
    for module in context.enabled_modules:
        access = truthy(module.raw.get("lowLevelAccess"))
        owner = f"module {module.name or module.id}"
        found += [OwnedTrigger(each, access, owner) for each in read_triggers(module.raw.get("trigger"))]
    return found


def selected(triggers: list[OwnedTrigger], mode: str, name: str) -> Iterator[OwnedTrigger]:
    """Return those that a mode or a manual name selects."""
    for owned in triggers:
        trigger = owned.trigger
        if trigger.always_selected or (trigger.comment == name if name else trigger.type == mode):
            yield owned
