"""The prompts SillyTavern itself brings to the collection, and the card's overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tavernkit.silly_tavern.card_fields import CardTexts
from tavernkit.silly_tavern.chat_completion.prompt_collection import (
    END,
    JAILBREAK,
    MAIN,
    START,
    Prompt,
    PromptCollection,
    Source,
)
from tavernkit.silly_tavern.extension_prompts import (
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
from tavernkit.silly_tavern.lore_sources import LoreSources, lore_reason
from tavernkit.silly_tavern.preset import Preset
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
    lore_sources: LoreSources = field(default_factory=dict[str, "Sequence[FrozenJson]"])


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
        source = Source(_STAGE, "persona", "personaDescription", reason="persona, in the prompt")
        collection.merge(Prompt("personaDescription", expand(texts.persona), source, role="system"))
    for found in extensions:
        if found.key not in NAMED_EXTENSIONS and found.value and found.position in _POSITIONS:
            prompt = _from_extension(found, identifier_of(found.key), _role(found), expand)
            collection.merge(replace(prompt, extension=True))


def override_by_card(collection: PromptCollection, card: CardTexts, expand: Callable[[str, str], str]) -> None:
    """Let the card's own main prompt and post-history instructions take the place of the preset's."""
    for identifier, text, card_field in (
        (MAIN, card.system_prompt, "system_prompt"),
        (JAILBREAK, card.post_history, "post_history_instructions"),
    ):
        reason = f"the card's text instead of the preset's {identifier} prompt"
        collection.override(identifier, text, expand, Source(_STAGE, "card field", card_field, reason=reason))


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
        return Prompt(identifier, content, Source(_STAGE, kind, identifier, reason=reason), role=role)

    def formatted(text: str, template: str) -> str:
        return expand(template) if text and template else text

    def lore(identifier: str, text: str) -> Prompt:
        listed = texts.lore_sources.get(identifier, ())
        source = Source(_STAGE, "lore", identifier, reason=lore_reason(listed), more={"entries": listed})
        return Prompt(identifier, format_lore(text, preset.wi_format), source, role="system")

    card = texts.card
    return [
        lore("worldInfoBefore", texts.lore_before),
        lore("worldInfoAfter", texts.lore_after),
        prompt("charDescription", card.description, "card field", "the character's description"),
        prompt(
            "charPersonality",
            formatted(card.personality, preset.personality_format),
            "card field",
            "the character's personality",
        ),
        prompt("scenario", formatted(card.scenario, preset.scenario_format), "card field", "the scenario"),
        prompt("impersonate", expand(preset.impersonation_prompt), "preset", "impersonation prompt"),
        prompt("quietPrompt", texts.quiet_prompt, "quiet prompt", "quiet prompt of this generation"),
        prompt("groupNudge", expand(preset.group_nudge_prompt), "preset", "group nudge"),
        prompt("bias", texts.bias, "bias", "the reply shall begin with it", role="assistant"),
    ]


def _from_extension(found: ExtensionPrompt, identifier: str, role: str | None, expand: Callable[[str], str]) -> Prompt:
    return Prompt(
        identifier=identifier,
        content=expand(found.value),
        source=Source("injection", found.kind, found.key, reason=found.reason),
        role=role,
        position=_POSITIONS.get(found.position),
    )


def _role(found: ExtensionPrompt) -> str:
    return ROLES[int(found.role)] if found.role in (0, 1, 2) else "system"
