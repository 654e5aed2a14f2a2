"""The ordered prompts of one build: the prompt manager's list and SillyTavern's own prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass, replaced
from tavernkit._text.js_values import trim
from tavernkit._values import FrozenJson, FrozenObject
from tavernkit.silly_tavern._chat.card_fields import CardTexts
from tavernkit.silly_tavern._chat.extension_prompts import (
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
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.preset_prompts import OrderEntry, PresetPrompt
from tavernkit.silly_tavern._provenance import CARD_FIELD, OWN_PERSONA, TITLES, field_reason, source
from tavernkit.silly_tavern._world_info.result import lore_reason

MAIN = "main"
JAILBREAK = "jailbreak"
CHAT_HISTORY = "chatHistory"
DIALOGUE_EXAMPLES = "dialogueExamples"

START, END = "start", "end"
"""The place of a registry prompt relative to the main prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of this build, its content expanded. ``custom`` marks a user's own prompt, which is sent separately."""

    identifier: str
    content: str
    source: FrozenObject
    role: str | None = None
    custom: bool = False
    injection_position: int | float | None = None
    injection_depth: int | float | None = None
    injection_order: int | float | None = None
    forbid_overrides: bool = False
    extension: bool = False
    position: str | None = None

    @property
    def in_chat(self) -> bool:
        """True if it goes into the chat at its depth."""
        return self.injection_position == 1


@dataclass(slots=True)
class PromptCollection:
    """Prompts in order. The index of the first one with an identifier is that identifier's slot in the prompt."""

    order: Sequence[OrderEntry]
    prompts: list[Prompt] = field(default_factory=list[Prompt])
    overridden: list[str] = field(default_factory=list[str])
    _places: dict[str, int] = field(default_factory=dict[str, int], init=False, repr=False, compare=False)
    _placed: int = field(default=0, init=False, repr=False, compare=False)
    _switches: dict[str, bool] | None = field(default=None, init=False, repr=False, compare=False)

    def __iter__(self) -> Iterator[Prompt]:
        return iter(self.prompts)

    def __contains__(self, identifier: str) -> bool:
        return self.index(identifier) >= 0

    def index(self, identifier: str) -> int:
        """The slot of an identifier, or -1."""
        for index in range(self._placed, len(self.prompts)):
            self._places.setdefault(self.prompts[index].identifier, index)
        self._placed = len(self.prompts)
        return self._places.get(identifier, -1)

    def get(self, identifier: str) -> Prompt | None:
        """The first prompt with an identifier."""
        index = self.index(identifier)
        return self.prompts[index] if index >= 0 else None

    def disabled(self, identifier: str) -> bool:
        """Return True if the order list switches an identifier off; its first line there decides."""
        if self._switches is None:
            self._switches = {each.identifier: each.enabled for each in reversed(self.order)}
        return not self._switches.get(identifier, True)

    def merge(self, prompt: Prompt) -> None:
        """Put a built-in or registry prompt in its place, or at the end if the order has none.

        It keeps the placement and role of the prompt that it replaces. So a user's own prompt with the identifier of
        a built-in one loses its text.
        """
        index = self.index(prompt.identifier)
        if index < 0:
            self.prompts.append(prompt)
            return
        old = self.prompts[index]
        self.prompts[index] = replaced(
            prompt,
            injection_position=_first(old.injection_position, prompt.injection_position),
            injection_depth=_first(old.injection_depth, prompt.injection_depth),
            injection_order=_first(old.injection_order, prompt.injection_order),
            role=old.role or prompt.role,
        )

    def override(self, identifier: str, text: str, expand: Callable[[str, str], str], source: FrozenObject) -> bool:
        """Replace a prompt with a card's text, unless the preset forbids it; ``{{original}}`` is the old text.

        ``expand`` takes the text and the original.
        """
        index = self.index(identifier)
        if not text or index < 0 or self.prompts[index].forbid_overrides or self.disabled(identifier):
            return False
        old = self.prompts[index]
        self.prompts[index] = replaced(old, content=expand(text, old.content), source=source)
        self.overridden.append(identifier)
        return True


def collect(
    prompts: Sequence[PresetPrompt],
    order: Sequence[OrderEntry],
    objection: Callable[[PresetPrompt], str | None],
    expand: Callable[[str], str],
    leave_out: Callable[[PresetPrompt, str], None],
) -> PromptCollection:
    """Collect the prompts of the order list that are active for this generation, expanding each in turn.

    ``objection`` returns why an enabled prompt is not active, if so; ``leave_out`` is called with those and the
    disabled ones. An inactive main prompt stays as an empty placeholder with its role and place, which the card's
    override gets.
    """
    by_identifier: dict[str, PresetPrompt] = {}
    for prompt in prompts:
        if prompt.identifier:
            by_identifier.setdefault(prompt.identifier, prompt)
    collection = PromptCollection(order)
    for entry in order:
        prompt = by_identifier.get(entry.identifier)
        if prompt is None:
            continue
        reason = objection(prompt) if entry.enabled else "switched off in the prompt list"
        if reason is None:
            collection.prompts.append(_taken(prompt, expand(prompt.content)))
            continue
        if prompt.identifier == MAIN:
            collection.prompts.append(_taken(prompt, ""))
        leave_out(prompt, reason)
    return collection


def _taken(prompt: PresetPrompt, content: str) -> Prompt:
    return Prompt(
        identifier=prompt.identifier,
        content=content,
        source=_preset_source(prompt),
        role=prompt.role,
        custom=prompt.system_prompt is False,
        injection_position=prompt.injection_position,
        injection_depth=prompt.injection_depth,
        injection_order=prompt.injection_order,
        forbid_overrides=prompt.forbid_overrides,
    )


def _preset_source(prompt: PresetPrompt) -> FrozenObject:
    name = prompt.name or TITLES.get(prompt.identifier, prompt.identifier)
    reason = "switched on in the preset's prompt list"
    return source("entries", "preset prompt", prompt.identifier, f"preset prompt {name}", reason, name=name)


def _first(value: int | float | None, otherwise: int | float | None) -> int | float | None:
    return otherwise if value is None else value


NAMED_EXTENSIONS = {
    SUMMARY: "summary",
    AUTHORS_NOTE: "authorsNote",
    VECTORS_MEMORY: "vectorsMemory",
    VECTORS_DATA_BANK: "vectorsDataBank",
    SMART_CONTEXT: "smartContext",
}
"""Registry keys with their own identifier, in merge order."""

ALWAYS_SYSTEM = (VECTORS_MEMORY, SMART_CONTEXT)
"""Keys whose registered role does not count, unless they are in the chat."""
BESIDE_MAIN = tuple(NAMED_EXTENSIONS.values())

PERSONA_DESCRIPTION = "personaDescription"
_STAGE = "pinned_groups"
_POSITIONS: Mapping[int | float, str] = {AFTER_MAIN: END, BEFORE_MAIN: START}


@dataclass(frozen=True, slots=True)
class BuildTexts:
    """The texts of this build with a place in every prompt list."""

    card: CardTexts
    lore_before: str
    lore_after: str
    quiet_prompt: str
    bias: str
    persona: str
    persona_reason: str = OWN_PERSONA
    bias_reason: str = "the reply begins with it"
    entries_before: Sequence[FrozenJson] = ()
    entries_after: Sequence[FrozenJson] = ()


def merge_built_ins(
    collection: PromptCollection,
    texts: BuildTexts,
    preset: Preset,
    extensions: ExtensionPrompts,
    expand: Callable[[str], str],
) -> None:
    """Build, expand and merge the built-in prompts in SillyTavern's order."""
    for prompt in _own_prompts(texts, preset, expand):
        collection.merge(replaced(prompt, content=expand(prompt.content)))
    for key, identifier in NAMED_EXTENSIONS.items():
        # Also texts that are placed in the chat: their macros run once more.
        found = extensions.get(key)
        if found is not None and found.value:
            role = "system" if key in ALWAYS_SYSTEM else _role(found)
            collection.merge(_from_extension(found, identifier, role, expand))
    if texts.persona:
        found = source(_STAGE, "persona", PERSONA_DESCRIPTION, TITLES[PERSONA_DESCRIPTION], texts.persona_reason)
        collection.merge(Prompt(PERSONA_DESCRIPTION, expand(texts.persona), found, role="system"))
    for found in extensions:
        if found.key not in NAMED_EXTENSIONS and found.value and found.position in _POSITIONS and not found.filtered:
            prompt = _from_extension(found, identifier_of(found.key), _role(found), expand)
            collection.merge(replaced(prompt, extension=True))


def override_by_card(collection: PromptCollection, card: CardTexts, expand: Callable[[str, str], str]) -> None:
    """Replace the preset's main prompt and post-history instructions with the card's."""
    for identifier, text, card_field in (
        (MAIN, card.system_prompt, "system_prompt"),
        (JAILBREAK, card.post_history, "post_history_instructions"),
    ):
        title = TITLES[identifier]
        owner = "chat" if card_field in card.of_chat else "card"
        reason = f"the {owner}'s text ({card_field}) instead of the preset's {title}"
        found = source(_STAGE, "card field", card_field, f"{title} of the {owner}", reason)
        collection.override(identifier, text, expand, found)


def around_main(collection: PromptCollection) -> list[Prompt]:
    """Return registry prompts before and after the main prompt, in insertion order."""
    named = (collection.get(identifier) for identifier in BESIDE_MAIN)
    found = [prompt for prompt in named if prompt is not None]
    found += [prompt for prompt in collection if prompt.extension]
    return [prompt for prompt in found if prompt.position is not None]


def format_lore(text: str, wi_format: str) -> str:
    """Put lore into the preset's format. A blank format counts as none; only ``{0}`` is replaced."""
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
    # All texts are expanded in every build, also those that this generation does not send: their macros run.
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
            field_reason("scenario", card.of_chat),
        ),
        prompt("impersonate", expand(preset.impersonation_prompt), "preset", "asks the model to write as the user"),
        prompt("quietPrompt", texts.quiet_prompt, "quiet prompt", "asked for in this generation only"),
        prompt("groupNudge", expand(preset.group_nudge_prompt), "preset", "asks for the speaker of this turn only"),
        prompt("bias", texts.bias, "bias", texts.bias_reason, role="assistant"),
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
