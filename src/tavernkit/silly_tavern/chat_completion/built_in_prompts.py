"""The prompts SillyTavern itself brings to the collection, and the card's overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tavernkit.silly_tavern.chat.card_fields import CardTexts
from tavernkit.silly_tavern.chat.extension_prompts import (
    AFTER_MAIN,
    AUTHORS_NOTE,
    BEFORE_MAIN,
    ROLES,
    SMART_CONTEXT,
    SUMMARY,
    VECTORS_DATA_BANK,
    VECTORS_MEMORY,
    ExtensionPrompt,
    ExtensionPrompts,
    identifier_of,
)
from tavernkit.silly_tavern.chat_completion.prompt_collection import (
    END,
    JAILBREAK,
    MAIN,
    START,
    Prompt,
    PromptCollection,
)
from tavernkit.silly_tavern.files.preset import Preset
from tavernkit.silly_tavern.provenance import CARD_FIELD, CARD_OR_CHAT, TITLES, source
from tavernkit.silly_tavern.world_info.lore_sources import lore_reason
from tavernkit.text.js_values import trim
from tavernkit.values import FrozenJson

NAMED_EXTENSIONS = {
    SUMMARY: "summary",
    AUTHORS_NOTE: "authorsNote",
    VECTORS_MEMORY: "vectorsMemory",
    VECTORS_DATA_BANK: "vectorsDataBank",
    SMART_CONTEXT: "smartContext",
}
"""Registry keys that have an identifier of their own, in the order they are merged."""

ALWAYS_SYSTEM = (VECTORS_MEMORY, SMART_CONTEXT)
BESIDE_MAIN = tuple(NAMED_EXTENSIONS.values())

PERSONA_DESCRIPTION = "personaDescription"
_STAGE = "pinned_groups"
_POSITIONS: Mapping[int | float, str] = {AFTER_MAIN: END, BEFORE_MAIN: START}


@dataclass(frozen=True, slots=True)
class BuildTexts:
    """The texts of this build that have a place in every prompt list."""

    card: CardTexts
    lore_before: str
    lore_after: str
    quiet_prompt: str
    bias: str
    persona: str
    entries_before: Sequence[FrozenJson] = ()
    entries_after: Sequence[FrozenJson] = ()


def merge_built_ins(
    collection: PromptCollection,
    texts: BuildTexts,
    preset: Preset,
    extensions: ExtensionPrompts,
    expand: Callable[[str], str],
) -> None:
    """Build the built-in prompts in SillyTavern's order and merge each into the collection, expanding it on the way."""
    for prompt in _own_prompts(texts, preset, expand):
        collection.merge(replace(prompt, content=expand(prompt.content)))
    for key, identifier in NAMED_EXTENSIONS.items():
        found = extensions.get(key)
        if found is not None and found.value:
            role = "system" if key in ALWAYS_SYSTEM else _role(found)
            collection.merge(_from_extension(found, identifier, role, expand))
    if texts.persona:
        found = source(_STAGE, "persona", PERSONA_DESCRIPTION, TITLES[PERSONA_DESCRIPTION], "the user's persona")
        collection.merge(Prompt(PERSONA_DESCRIPTION, expand(texts.persona), found, role="system"))
    for found in extensions:
        if found.key not in NAMED_EXTENSIONS and found.value and found.position in _POSITIONS and not found.filtered:
            prompt = _from_extension(found, identifier_of(found.key), _role(found), expand)
            collection.merge(replace(prompt, extension=True))


def override_by_card(collection: PromptCollection, card: CardTexts, expand: Callable[[str, str], str]) -> None:
    """Let the card's own main prompt and post-history instructions take the place of the preset's."""
    for identifier, text, card_field in (
        (MAIN, card.system_prompt, "system_prompt"),
        (JAILBREAK, card.post_history, "post_history_instructions"),
    ):
        title = TITLES[identifier]
        reason = f"the card's text instead of the preset's {title}"
        found = source(_STAGE, "card field", card_field, f"{title} of the card", reason)
        collection.override(identifier, text, expand, found)


def beside_main(collection: PromptCollection) -> list[Prompt]:
    """Registry prompts that stand before or after the main prompt, in the order they are inserted."""
    named = (collection.get(identifier) for identifier in BESIDE_MAIN)
    found = [prompt for prompt in named if prompt is not None]
    found += [prompt for prompt in collection if prompt.extension]
    return [prompt for prompt in found if prompt.position is not None]


def format_lore(text: str, wi_format: str) -> str:
    """Put lore into the preset's format."""
    if not text or not trim(wi_format):
        return text
    return wi_format.replace("{0}", text)


def _own_prompts(texts: BuildTexts, preset: Preset, expand: Callable[[str], str]) -> list[Prompt]:
    def prompt(identifier: str, content: str, kind: str, reason: str, *, role: str = "system") -> Prompt:
        return Prompt(identifier, content, source(_STAGE, kind, identifier, TITLES[identifier], reason), role=role)

    def formatted(text: str, template: str) -> str:
        return expand(template) if text and template else text

    def lore(identifier: str, text: str, entries: Sequence[FrozenJson]) -> Prompt:
        found = source(_STAGE, "lore", identifier, TITLES[identifier], lore_reason(entries), entries=entries)
        return Prompt(identifier, format_lore(text, preset.wi_format), found, role="system")

    card = texts.card
    return [
        lore("worldInfoBefore", texts.lore_before, texts.entries_before),
        lore("worldInfoAfter", texts.lore_after, texts.entries_after),
        prompt("charDescription", card.description, "card field", CARD_FIELD),
        prompt(
            "charPersonality",
            formatted(card.personality, preset.personality_format),
            "card field",
            CARD_FIELD,
        ),
        prompt(
            "scenario",
            formatted(card.scenario, preset.scenario_format),
            "card field",
            CARD_OR_CHAT,
        ),
        prompt("impersonate", expand(preset.impersonation_prompt), "preset", "asks the model to write as the user"),
        prompt("quietPrompt", texts.quiet_prompt, "quiet prompt", "asked for in this generation only"),
        prompt("groupNudge", expand(preset.group_nudge_prompt), "preset", "asks for the speaker of this turn only"),
        prompt("bias", texts.bias, "bias", "the reply shall begin with it", role="assistant"),
    ]


def _from_extension(found: ExtensionPrompt, identifier: str, role: str | None, expand: Callable[[str], str]) -> Prompt:
    return Prompt(
        identifier=identifier,
        content=expand(found.value),
        source=found.source("injection"),
        role=role,
        position=_POSITIONS.get(found.position),
    )


def _role(found: ExtensionPrompt) -> str:
    return ROLES[int(found.role)] if found.role in (0, 1, 2) else "system"
