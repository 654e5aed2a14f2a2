"""Fills the slots of a prompt from preset, character, persona, note and lore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tavernkit.risu_ai.character_fields import CharacterFields
from tavernkit.risu_ai.js_replace import replace_all
from tavernkit.risu_ai.lorebook.result import ActiveLore
from tavernkit.risu_ai.preset import Preset
from tavernkit.risu_ai.prompt_message import PromptMessage
from tavernkit.risu_ai.prompt_template.card_writer import ORIGINAL
from tavernkit.risu_ai.prompt_template.cards import AuthorNoteCard, TemplateCard
from tavernkit.risu_ai.prompt_template.lore_places import (
    AFTER_DESCRIPTION,
    BEFORE_DESCRIPTION,
    at_end,
    in_lorebook_slot,
    lore_message,
)
from tavernkit.risu_ai.prompt_template.role_split import role_split
from tavernkit.risu_ai.prompt_template.slots import Slots
from tavernkit.risu_ai.reformat import SLOT
from tavernkit.risu_ai.settings import Settings
from tavernkit.risu_ai.texts import Texts
from tavernkit.risu_ai.world import RisuCharacter

CONTINUE_LINE = "[Continue the last response]"
_CONTINUING_MODELS = ("claude", "gpt", "openrouter", "reverse_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWriter:
    """Everything slots are filled from. ``texts`` expands for the speaking character."""

    texts: Texts
    preset: Preset
    settings: Settings
    character: RisuCharacter
    fields: CharacterFields
    lore: Sequence[ActiveLore]
    note: str
    background: str
    in_group: bool
    own_thinking: bool
    """The template brings its own chain of thought."""

    def fill(self, slots: Slots, template: Sequence[TemplateCard] | None) -> None:
        """Fill every slot but the chat's."""
        if template is None:
            self._prompts(slots)
        self._author_note(slots, template or ())
        self._description(slots)
        slots.lorebook += [self._lore(entry) for entry in self.lore if in_lorebook_slot(entry)]
        self._persona(slots)
        self._post_everything(slots)

    def _prompts(self, slots: Slots) -> None:
        preset, fields = self.preset, self.fields
        main = preset.main_prompt or ""
        if fields.system_prompt:
            main = replace_all(fields.system_prompt, ORIGINAL, main)
        if preset.prompt_preprocess and self.settings.additional_prompt:
            main = f"{main}\n{self.settings.additional_prompt}"
        slots.main += role_split(self.texts(main), {"stage": "slots", "kind": "main prompt"})
        if self.settings.jailbreak_toggle:
            jailbreak = self.texts(preset.jailbreak or "")
            slots.jailbreak += role_split(jailbreak, {"stage": "slots", "kind": "jailbreak"})
        note = preset.global_note
        if fields.replace_global_note:
            note = replace_all(fields.replace_global_note, ORIGINAL, note)
        slots.global_note += role_split(self.texts(note), {"stage": "slots", "kind": "global note"})

    def _author_note(self, slots: Slots, template: Sequence[TemplateCard]) -> None:
        note, kind = self.note, "author's note"
        if not note:
            first = next((card for card in template if isinstance(card, AuthorNoteCard)), None)
            note, kind = first.default_text if first is not None else "", "author's note of the template"
        if note:
            slots.author_note.append(_system(self.texts(note), kind))

    def _description(self, slots: Slots) -> None:
        character = self.character
        prefix = self.settings.description_prefix if self.preset.prompt_preprocess else ""
        text = self.texts(prefix + (character.description or ""))
        if self.background:
            text += f"\n\n{self.background}"
        if character.personality:
            text += self.texts(f"\n\nDescription of {{{{char}}}}: {character.personality}")
        if character.scenario:
            text += self.texts(f"\n\nCircumstances and context of the dialogue: {character.scenario}")
        slots.description.append(_system(text, "description"))
        for entry in self.lore:
            if entry.pos == BEFORE_DESCRIPTION:
                slots.description.insert(0, self._lore(entry))
            elif entry.pos in AFTER_DESCRIPTION:
                slots.description.append(self._lore(entry))

    def _persona(self, slots: Slots) -> None:
        prompt = self.settings.persona_prompt
        if not prompt:
            return
        bound = self.texts.context.persona
        slots.persona.append(_system(self.texts(prompt if bound is None else bound.prompt or ""), "persona"))

    def _post_everything(self, slots: Slots) -> None:
        slot = slots.post_everything
        if self.settings.chain_of_thought and not self.own_thinking:
            slot.append(_system(self.settings.texts.chain_of_thought, "chain of thought"))
        if self.in_group:
            slot.append(_system(f"[Write the next reply only as {self.character.name}]", "group instruction"))
        if self.fields.inlay_view == "emotion":
            names = ", ".join(emotion.name for emotion in self.character.emotions or ())
            text = replace_all(self.fields.emotion_instructions, SLOT, names)
            slot.append(_system(text, "emotion instructions"))
        elif self.fields.inlay_view == "imggen":
            slot.append(_system(self.fields.image_instructions, "image instructions"))
        last = [entry for entry in self.lore if at_end(entry)]
        slot += [self._lore(entry) for entry in last if entry.role != "assistant"]
        slot += [self._lore(entry) for entry in last if entry.role == "assistant"]

    def _lore(self, entry: ActiveLore) -> PromptMessage:
        return lore_message(entry, self.texts(entry.text))


def continue_line(model: str) -> list[PromptMessage]:
    """The request to go on with the last message, for models that get one."""
    return [_system(CONTINUE_LINE, "continue instruction")] if model.startswith(_CONTINUING_MODELS) else []


def _system(content: str, kind: str) -> PromptMessage:
    return PromptMessage(role="system", content=content, source={"stage": "slots", "kind": kind})
