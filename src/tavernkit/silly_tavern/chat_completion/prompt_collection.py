"""The ordered prompts of one build: the prompt manager's list, with what the build puts into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tavernkit.silly_tavern.files.preset_prompts import OrderEntry, PresetPrompt
from tavernkit.silly_tavern.provenance import TITLES, source
from tavernkit.values import FrozenObject

MAIN = "main"
JAILBREAK = "jailbreak"
CHAT_HISTORY = "chatHistory"
DIALOGUE_EXAMPLES = "dialogueExamples"

START, END = "start", "end"
"""Where a registry prompt stands relative to the main prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of this build, its content expanded. ``custom`` marks a user's own prompt, which is sent by itself."""

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
        """Whether it goes into the chat at its depth."""
        return self.injection_position == 1


@dataclass(slots=True)
class PromptCollection:
    """Prompts in order. The place of the first one with an identifier is that identifier's slot in the prompt."""

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
        """Whether the order list switches an identifier off; its first line there decides."""
        if self._switches is None:
            self._switches = {each.identifier: each.enabled for each in reversed(self.order)}
        return not self._switches.get(identifier, True)

    def merge(self, prompt: Prompt) -> None:
        """Put a built-in or registry prompt into its place, or at the end when the order has no place for it.

        Placement and role of the prompt whose place it takes stay in force.
        """
        index = self.index(prompt.identifier)
        if index < 0:
            self.prompts.append(prompt)
            return
        old = self.prompts[index]
        self.prompts[index] = replace(
            prompt,
            injection_position=_first(old.injection_position, prompt.injection_position),
            injection_depth=_first(old.injection_depth, prompt.injection_depth),
            injection_order=_first(old.injection_order, prompt.injection_order),
            role=old.role or prompt.role,
        )

    def override(self, identifier: str, text: str, expand: Callable[[str, str], str], source: FrozenObject) -> bool:
        """Let a card's text replace a prompt, unless the preset forbids it; ``{{original}}`` is the text before.

        ``expand`` takes the text and the original.
        """
        index = self.index(identifier)
        if not text or index < 0 or self.prompts[index].forbid_overrides or self.disabled(identifier):
            return False
        old = self.prompts[index]
        self.prompts[index] = replace(old, content=expand(text, old.content), source=source)
        self.overridden.append(identifier)
        return True


def collect(
    prompts: Sequence[PresetPrompt],
    order: Sequence[OrderEntry],
    objection: Callable[[PresetPrompt], str | None],
    expand: Callable[[str], str],
    leave_out: Callable[[PresetPrompt, str], None],
) -> PromptCollection:
    """Walk the order list and take the prompts that are active for this generation, expanding each in turn.

    ``objection`` says why a prompt that is switched on is not active, if it is not; ``leave_out`` is called with those
    and the ones that are off. A main prompt that is not active stays, empty, as a place.
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
