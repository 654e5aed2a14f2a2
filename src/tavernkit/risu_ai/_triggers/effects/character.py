"""Texts of the character, the persona and the author's note."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tavernkit._text.js_values import to_string
from tavernkit._values import freeze_object
from tavernkit.risu_ai._triggers.registry import EffectTable

if TYPE_CHECKING:
    from tavernkit.risu_ai._objects import RisuCharacter
    from tavernkit.risu_ai._triggers.program import Effect
    from tavernkit.risu_ai._triggers.run import Run

effects = EffectTable()


@effects.effect("v2GetCharacterDesc")
def get_description(run: Run, effect: Effect) -> None:
    """Read the description unexpanded."""
    run.output(effect, run.character.description or "")


@effects.effect("v2SetCharacterDesc")
def set_description(run: Run, effect: Effect) -> None:
    """Write the description."""
    text = run.value(effect, "value")

    def change(character: RisuCharacter) -> RisuCharacter:
        return dataclasses.replace(character, description=text, raw=freeze_object({**character.raw, "desc": text}))

    run.change_character(change, "desc")


@effects.effect("v2GetReplaceGlobalNote")
def get_global_note(run: Run, effect: Effect) -> None:
    """Read the text that replaces the global note."""
    note = run.character.raw.get("replaceGlobalNote")
    run.output(effect, "" if note is None else to_string(note))


@effects.effect("v2SetReplaceGlobalNote")
def set_global_note(run: Run, effect: Effect) -> None:
    """Write the text that replaces the global note."""
    text = run.value(effect, "value")

    def change(character: RisuCharacter) -> RisuCharacter:
        return dataclasses.replace(character, raw=freeze_object({**character.raw, "replaceGlobalNote": text}))

    run.change_character(change, "replaceGlobalNote")


@effects.effect("v2GetPersonaDesc")
def get_persona(run: Run, effect: Effect) -> None:
    """Read the persona's text unexpanded."""
    run.output(effect, run.world.persona_prompt)


@effects.effect("v2SetPersonaDesc")
def set_persona(run: Run, effect: Effect) -> None:
    """Write the text of the selected persona, if there is one."""
    if run.world.set_persona(run.value(effect, "value")):
        run.world.event("persona")


@effects.effect("v2GetAuthorNote")
def get_note(run: Run, effect: Effect) -> None:
    """Read the author's note."""
    run.output(effect, run.chat.note)


@effects.effect("v2SetAuthorNote")
def set_note(run: Run, effect: Effect) -> None:
    """Write the author's note, in the stored chat as well."""
    note = run.world.budget.text(run.value(effect, "value"))
    run.chat = dataclasses.replace(run.chat, note=note)
    run.world.chat = dataclasses.replace(run.world.chat, note=note)
    run.world.event("note", note)
