"""The prompt manager's part of a preset: prompts, their order, problems with them, and its own export file."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string
from tavernkit._text.json_reader import JsonReader, as_number
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_sequence,
    thaw_object,
)
from tavernkit.errors import InvalidPresetError, Warn, log_warning
from tavernkit.prompt._inputs import GENERATION_TYPES
from tavernkit.silly_tavern._chat.extension_prompts import ROLES
from tavernkit.silly_tavern._limits import MAX_INJECTION_DEPTH

if TYPE_CHECKING:
    from tavernkit.silly_tavern._files.preset import Preset


GLOBAL_ORDER_ID = "100001"
"""The ``character_id`` of the order list that is used."""

DEFAULT_INJECTION_ORDER = 100
RELATIVE, IN_CHAT = 0, 1


@dataclass(frozen=True, slots=True)
class PresetPrompt:
    """One prompt of the prompt manager. ``None`` means that the file does not set it, which differs from a default."""

    identifier: str
    """The prompt's id: ``main``, ``chatHistory``, … or the user's own id."""
    name: str = ""
    """What the prompt manager calls it."""
    role: str | None = None
    """``system``, ``user`` or ``assistant``."""
    content: str = ""
    """The text."""
    system_prompt: bool | None = None
    """True for SillyTavern's built-in prompts."""
    marker: bool = False
    """True for a placeholder that is filled from elsewhere, such as the chat."""
    injection_position: int | float | None = None
    """0 in the order of the list, 1 in the chat at ``injection_depth``."""
    injection_depth: int | float | None = None
    """Messages between it and the end of the chat."""
    injection_order: int | float | None = None
    """Sorts prompts at the same depth; 100 by default."""
    injection_trigger: tuple[str, ...] = ()
    """Generation types that the prompt is for; empty for all."""
    forbid_overrides: bool = False
    """True if a card must not replace the text."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """The JSON that it was read from; unknown keys survive."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn, where: str = "prompt") -> PresetPrompt:
        """Read a prompt object.

        Args:
            data: The prompt.
            warn: Called with each warning.
            where: Its location in the file, for warnings.
        """
        return read_prompt(data, warn, where)

    def to_json(self) -> JsonObject:
        """Return the object in file format, with all changes and unknown keys."""
        return write_back(self, self.source, _PROMPT_KEYS, read_prompt(self.source, _silent, "prompt"))

    def replace(self, **changes: object) -> PresetPrompt:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    @property
    def in_chat(self) -> bool:
        """True if the prompt goes into the chat at its depth."""
        return self.injection_position == IN_CHAT

    @property
    def conditions(self) -> FrozenObject:
        """Our own addition to the format: when the prompt applies, as for ``PromptEntry``."""
        found = self.source.get("conditions")
        return found if isinstance(found, Mapping) else EMPTY_OBJECT

    def triggered_by(self, generation_type: str) -> bool:
        """Return True if the prompt applies to a generation of this type."""
        return not self.injection_trigger or generation_type in self.injection_trigger


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """One line of the prompt manager's list."""

    identifier: str
    """The identifier of the prompt."""
    enabled: bool = True
    """True if the prompt is switched on."""


@dataclass(frozen=True, slots=True)
class PromptOrder:
    """One order list. Only the one whose ``character_id`` is 100001 (as text or number) is used."""

    character_id: FrozenJson
    entries: tuple[OrderEntry, ...]
    """The prompts in order."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """The JSON that it was read from; unknown keys survive."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, warn: Warn, where: str = "prompt_order") -> PromptOrder:
        """Read an order list.

        Args:
            data: The order list.
            warn: Called with each warning.
            where: Its location in the file, for warnings.
        """
        source = freeze_object(data)
        entries: list[OrderEntry] = []
        for index, item in enumerate(JsonReader(data, where, warn).objects("order")):
            reader = JsonReader(item, f"{where}.order[{index}]", warn)
            entries.append(OrderEntry(identifier=reader.text("identifier"), enabled=reader.flag("enabled")))
        return cls(character_id=source.get("character_id"), entries=tuple(entries), source=source)

    def to_json(self) -> JsonObject:
        """Return the object in file format; unchanged lists keep every key."""
        plain = thaw_object(self.source)
        unchanged = PromptOrder.from_json(self.source, warn=_silent).entries == self.entries if self.source else False
        if not unchanged:
            plain["character_id"] = self.character_id  # pyright: ignore[reportArgumentType]  # a JSON scalar
            plain["order"] = [{"identifier": each.identifier, "enabled": each.enabled} for each in self.entries]
        return plain

    @property
    def is_global(self) -> bool:
        """True if this is the list that is used."""
        return to_string(self.character_id) == GLOBAL_ORDER_ID


def read_prompt(data: Mapping[str, object], warn: Warn, where: str) -> PresetPrompt:
    """Read a prompt object, like ``PresetPrompt.from_json()``, but without checks."""
    reader = JsonReader(data, where, warn)
    system_prompt = data.get("system_prompt")
    return PresetPrompt(
        identifier=reader.text("identifier"),
        name=reader.text("name"),
        role=reader.optional_text("role"),
        content=reader.text("content"),
        # False is not the same as missing: only prompts with false are sent.
        system_prompt=system_prompt if isinstance(system_prompt, bool) else None,
        marker=reader.flag("marker"),
        injection_position=_exact_number(data.get("injection_position")),
        injection_depth=_exact_number(data.get("injection_depth")),
        injection_order=as_number(data.get("injection_order")),
        injection_trigger=_triggers(reader, data.get("injection_trigger")),
        forbid_overrides=data.get("forbid_overrides") is True,
        source=freeze_object(data),
    )


def active_order(orders: Iterable[PromptOrder], default: Sequence[OrderEntry]) -> Sequence[OrderEntry]:
    """Return the list that is used: the first global one, or the default list if that is missing or empty."""
    chosen = next((each for each in orders if each.is_global), None)
    return chosen.entries if chosen is not None and chosen.entries else default


def complete_prompts(prompts: Sequence[PresetPrompt], defaults: Sequence[PresetPrompt]) -> tuple[PresetPrompt, ...]:
    """Add the built-in prompts a preset lacks; a preset without any prompt gets the whole default set."""
    known = {prompt.identifier for prompt in prompts}
    return (*prompts, *(prompt for prompt in defaults if prompt.identifier not in known))


def write_back(now: object, source: FrozenObject, keys: Iterable[str], then: object) -> JsonObject:
    """Write changed attributes over a copy of ``source``."""
    plain = thaw_object(source)
    for key in keys:
        value = getattr(now, key)
        if value != getattr(then, key) or (not source and value is not None):
            plain[key] = list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType]
    return plain


def _triggers(reader: JsonReader, value: object) -> tuple[str, ...]:
    """Return the types in a list. A list without any text has none, unlike an empty one, which means all."""
    return (reader.texts("injection_trigger") or ("",)) if is_sequence(value) and value else ()


def _exact_number(value: object) -> int | float | None:
    """Accept numbers only: SillyTavern compares strictly, so numeric text is not a number."""
    return None if isinstance(value, str) else as_number(value)


def _silent(_message: str) -> None:
    """Ignore a warning: the object was already read with warnings."""


_PROMPT_KEYS = tuple(field.name for field in dataclasses.fields(PresetPrompt) if field.name != "source")


RESERVED_IDENTIFIERS = frozenset(
    {
        "impersonate",
        "quietPrompt",
        "groupNudge",
        "bias",
        "summary",
        "authorsNote",
        "vectorsMemory",
        "vectorsDataBank",
        "smartContext",
        "continueNudge",
        "continuePrefill",
        "controlPrompts",
        "newMainChat",
        "newChat",
        "emptyUserMessageReplacement",
    }
)
"""Identifiers that a build uses itself: preset prompts with these names are replaced."""


def problems_of(preset: Preset) -> list[str]:
    """Return everything in a preset that is valid but does not do what it seems to, one sentence each."""
    return [problem for check in _CHECKS for problem in check(preset)]


def _budget(preset: Preset) -> Iterator[str]:
    if preset.openai_max_tokens >= preset.openai_max_context:
        yield (
            f"openai_max_tokens ({preset.openai_max_tokens}) leaves nothing of openai_max_context "
            f"({preset.openai_max_context}) for the prompt"
        )


def _order(preset: Preset) -> Iterator[str]:
    known = {prompt.identifier for prompt in preset.effective_prompts}
    if preset.prompt_order and not any(order.is_global and order.entries for order in preset.prompt_order):
        yield "prompt_order has no list for character_id 100001: the default order is used"
    counts = Counter(entry.identifier for entry in preset.effective_order)
    for identifier, count in counts.items():
        if identifier not in known:
            yield f"prompt_order names {identifier!r}, which is not a prompt"
        elif count > 1:
            yield f"prompt_order names {identifier!r} {count} times: only the first place counts, but each is paid for"


def _prompts(preset: Preset) -> Iterator[str]:
    counts = Counter(prompt.identifier for prompt in preset.prompts)
    for identifier, count in counts.items():
        if not identifier:
            yield f"{count} prompts have no identifier and are never sent"
        elif count > 1:
            yield f"{count} prompts are called {identifier!r}: only the first counts"
    ordered = {entry.identifier for entry in preset.effective_order if entry.enabled}
    for prompt in preset.prompts:
        if prompt.identifier in ordered:
            yield from (f"prompt {prompt.name or prompt.identifier!r} {fault}" for fault in _faults(prompt))


def _faults(prompt: PresetPrompt) -> Iterator[str]:
    if prompt.identifier in RESERVED_IDENTIFIERS:
        yield f"is called {prompt.identifier!r}, a name that SillyTavern uses itself: its text is replaced"
    unknown = [trigger for trigger in prompt.injection_trigger if trigger not in GENERATION_TYPES]
    if unknown:
        yield f"is triggered by {', '.join(unknown)}, which no generation is called"
    reason = never_sent(prompt)
    if reason is not None:
        yield reason


def never_sent(prompt: PresetPrompt) -> str | None:
    """Return why SillyTavern never sends a prompt, even if it is enabled; None if it does.

    It sends its own prompts by name, and others only if their ``system_prompt`` is false.
    """
    if prompt.in_chat:
        depth = prompt.injection_depth
        if not isinstance(depth, int) or not 0 <= depth <= MAX_INJECTION_DEPTH:
            return f"is in the chat at depth {depth!r} and is never sent: the depth must be a whole number from 0 on"
        if prompt.role not in ROLES:
            return f"is in the chat with the role {prompt.role!r} and is never sent"
    elif prompt.system_prompt is not False and prompt.identifier not in _own_prompts():
        return "is never sent: its system_prompt must be false"
    return None


@cache
def _own_prompts() -> frozenset[str]:
    from tavernkit.silly_tavern._files.preset import Preset

    return RESERVED_IDENTIFIERS | {prompt.identifier for prompt in Preset.default().prompts}


_CHECKS: tuple[Callable[[Preset], Iterator[str]], ...] = (_budget, _order, _prompts)


EXPORT_VERSION = 1
EXPORT_KINDS = ("full", "character")


def export_prompts(preset: Preset, kind: str = "full") -> JsonObject:
    """Write the prompts and the order of a preset as the prompt manager exports them.

    Args:
        preset: The preset to export from.
        kind: ``full`` or ``character``.

    Raises:
        InvalidPresetError: The kind is unknown.
    """
    if kind not in EXPORT_KINDS:
        raise InvalidPresetError(f"a prompt export is one of {', '.join(EXPORT_KINDS)}, not {kind!r}")
    prompts: list[Json] = [prompt.to_json() for prompt in preset.effective_prompts if not prompt.marker]
    order: list[Json] = [{"identifier": entry.identifier, "enabled": entry.enabled} for entry in preset.effective_order]
    return {"version": EXPORT_VERSION, "type": kind, "data": {"prompts": prompts, "prompt_order": order}}


def import_prompts(preset: Preset, data: Mapping[str, object], *, warn: Warn = log_warning) -> Preset:
    """Import the prompts of an export into a preset: imported ones win, the order replaces the old one by position.

    Args:
        preset: The preset to change; a new one is returned.
        data: The export's JSON object.
        warn: Called with each warning; by default they are logged.

    Raises:
        InvalidPresetError: The export has neither prompts nor an order.
    """
    reader = JsonReader(data, "prompt export", warn).reader("data")
    imported = [PresetPrompt.from_json(each, warn=warn) for each in reader.objects("prompts")]
    if not imported and not reader.objects("prompt_order"):
        raise InvalidPresetError("a prompt export has data.prompts and data.prompt_order")
    by_identifier: dict[str, PresetPrompt] = {}
    for prompt in preset.effective_prompts:
        by_identifier.setdefault(prompt.identifier, prompt)
    by_identifier.update((prompt.identifier, prompt) for prompt in imported)
    entries = PromptOrder.from_json({"order": list(reader.items("prompt_order"))}, warn=warn).entries
    current = preset.effective_order
    order: tuple[OrderEntry, ...] = (*entries, *current[len(entries) :])
    others = tuple(each for each in preset.prompt_order if not each.is_global)
    return preset.replace(
        prompts=tuple(by_identifier.values()),
        prompt_order=(*others, PromptOrder(character_id=int(GLOBAL_ORDER_ID), entries=order)),
    )
