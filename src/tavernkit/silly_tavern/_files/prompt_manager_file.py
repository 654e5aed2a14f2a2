"""The prompt manager's own export file: prompts and their order without the rest of a preset."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._text.json_reader import JsonReader
from tavernkit._values import Json, JsonObject
from tavernkit.errors import InvalidPresetError, Warn, log_warning
from tavernkit.silly_tavern._files.preset import Preset
from tavernkit.silly_tavern._files.preset_prompts import GLOBAL_ORDER_ID, OrderEntry, PresetPrompt, PromptOrder

VERSION = 1
KINDS = ("full", "character")


def export_prompts(preset: Preset, kind: str = "full") -> JsonObject:
    """Write the prompts and the order of a preset as the prompt manager exports them.

    Args:
        preset: The preset to export from.
        kind: ``full`` or ``character``.

    Raises:
        InvalidPresetError: The kind is unknown.
    """
    if kind not in KINDS:
        raise InvalidPresetError(f"a prompt export is one of {', '.join(KINDS)}, not {kind!r}")
    prompts: list[Json] = [prompt.to_json() for prompt in preset.effective_prompts if not prompt.marker]
    order: list[Json] = [{"identifier": entry.identifier, "enabled": entry.enabled} for entry in preset.effective_order]
    return {"version": VERSION, "type": kind, "data": {"prompts": prompts, "prompt_order": order}}


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
