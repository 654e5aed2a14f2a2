"""Fills the slots of a prompt from preset, character, persona, note and lore."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._text.traced import added
from tavernkit._values import FrozenObject
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, changing, source_of
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._js import replace_all
from tavernkit.risu_ai._lorebook.result import ActiveLore
from tavernkit.risu_ai._objects import RisuCharacter
from tavernkit.risu_ai._prompt_template.card_writer import ORIGINAL, REPLACED_NOTE
from tavernkit.risu_ai._prompt_template.cards import AuthorNoteCard, TemplateCard
from tavernkit.risu_ai._prompt_template.lore_places import (
    AFTER_DESCRIPTION,
    BEFORE_DESCRIPTION,
    at_end,
    in_lorebook_slot,
    lore_message,
)
from tavernkit.risu_ai._prompt_template.slots import CharacterFields, Slots, Texts
from tavernkit.risu_ai._requests.reformat import SLOT

_MARKER = re.compile(r"@@@?(user|assistant|system)\n")


def role_split(text: str, source: FrozenObject) -> list[PromptMessage]:
    """Split a text at its markers; one that starts with ``@@`` loses all before its first marker, as in RisuAI."""
    if not text.startswith("@@"):
        text = "@@system\n" + text
    markers = list(_MARKER.finditer(text))
    ends = [*(marker.start() for marker in markers[1:]), len(text)]
    return [
        PromptMessage(role=marker[1], content=trim(text[marker.end() : end]), source=source)
        for marker, end in zip(markers, ends, strict=False)
    ]


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
        main, why = preset.main_prompt or "", "the preset's main prompt"
        if fields.system_prompt:
            main = replace_all(fields.system_prompt, ORIGINAL, main)
            why = "the character's system prompt instead of the preset's main prompt"
        if preset.prompt_preprocess and self.settings.additional_prompt:
            main = main + "\n" + self.settings.additional_prompt
        slots.main += role_split(self.texts(main), changing(source_of("slots", "main prompt", why), main))
        if self.settings.jailbreak_toggle:
            jailbreak = self.texts(preset.jailbreak or "")
            source = source_of("slots", "jailbreak", "the jailbreak toggle is on")
            slots.jailbreak += role_split(jailbreak, changing(source, preset.jailbreak))
        note, why = preset.global_note, "the preset's global note"
        if fields.replace_global_note:
            note = replace_all(fields.replace_global_note, ORIGINAL, note)
            why = REPLACED_NOTE
        slots.global_note += role_split(self.texts(note), changing(source_of("slots", "global note", why), note))

    def _author_note(self, slots: Slots, template: Sequence[TemplateCard]) -> None:
        note, why = self.note, "the note of this chat"
        if not note:
            first = next((card for card in template if isinstance(card, AuthorNoteCard)), None)  # others do not count
            note, why = first.default_text if first is not None else "", "the template's text for chats without a note"
        if note:
            slots.author_note.append(_system(self.texts(note), "author's note", why, raw=(note,)))

    def _description(self, slots: Slots) -> None:
        character = self.character
        prefix = self.settings.description_prefix if self.preset.prompt_preprocess else ""
        text = self.texts(prefix + (character.description or ""))
        used = ["description"]
        if self.background:
            text += "\n\n" + self.background
            used.append("additional text")
        if character.personality:
            text += self.texts(added("\n\nDescription of {{char}}: ", "personality") + character.personality)
            used.append("personality")
        if character.scenario:
            text += self.texts(
                added("\n\nCircumstances and context of the dialogue: ", "scenario") + character.scenario
            )
            used.append("scenario")
        raw = (character.description, character.personality, character.scenario)
        slots.description.append(_system(text, "description", f"the character's {', '.join(used)}", raw=raw))
        for entry in self.lore:
            if entry.pos == BEFORE_DESCRIPTION:
                slots.description.insert(
                    0, self._lore(entry)
                )  # in front of those before: RisuAI turns their order round
            elif entry.pos in AFTER_DESCRIPTION:
                slots.description.append(self._lore(entry))

    def _persona(self, slots: Slots) -> None:
        prompt = self.settings.persona_prompt
        if not prompt:
            return  # a bound persona is not used either, as in RisuAI
        bound = self.texts.context.persona
        text, why = prompt, "the persona prompt of the settings"
        if bound is not None:
            text, why = bound.prompt or "", "the persona this chat is bound to"
        name = "" if bound is None else bound.name or ""
        slots.persona.append(_system(self.texts(text), "persona", why, name, raw=(text,)))

    def _post_everything(self, slots: Slots) -> None:
        slot = slots.post_everything
        if self.settings.chain_of_thought and not self.own_thinking:
            slot.append(
                _system(self.settings.texts.chain_of_thought, "chain of thought", "chain of thought is switched on")
            )
        if self.in_group:
            name = self.character.name
            instruction = "a group"
            text = added("[Write the next reply only as ", instruction) + name + added("]", instruction)
            slot.append(_system(text, "group instruction", f"{name} speaks for the group"))
        # RisuAI expands neither of these.
        if self.fields.inlay_view == "emotion":
            names = ", ".join(emotion.name for emotion in self.character.emotions or ())
            text = replace_all(self.fields.emotion_instructions, SLOT, names)
            slot.append(_system(text, "emotion instructions", "the character shows emotions in its texts"))
        elif self.fields.inlay_view == "imggen":
            slot.append(_system(self.fields.image_instructions, "image instructions", "the character has images made"))
        last = [entry for entry in self.lore if at_end(entry)]  # RisuAI puts the assistant's behind all others
        slot += [self._lore(entry) for entry in last if entry.role != "assistant"]
        slot += [self._lore(entry) for entry in last if entry.role == "assistant"]

    def _lore(self, entry: ActiveLore) -> PromptMessage:
        return lore_message(entry, self.texts(entry.text))


def continue_line(model: str) -> list[PromptMessage]:
    """The request to go on with the last message, for models that get one."""
    if not model.startswith(_CONTINUING_MODELS):
        return []
    return [_system(added(CONTINUE_LINE, "continuing"), "continue instruction", "the last message is to be continued")]


def _system(content: str, kind: str, reason: str, name: str = "", *, raw: Sequence[str | None] = ()) -> PromptMessage:
    source = changing(source_of("slots", kind, reason, name=name), *raw)
    return PromptMessage(role="system", content=content, source=source)
