"""What operations change in the settings, as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._values import FrozenJson, JsonObject, freeze_object, is_mapping, is_sequence, thaw
from tavernkit.risu_ai._files.preset import Preset
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuPersona

_PERSONA_KEYS = {"id": "id", "name": "name", "prompt": "personaPrompt", "icon": "icon"}


def settings_changes(before: Settings, after: Settings) -> JsonObject:
    """The settings that triggers, personas and presets change, as far as they did."""
    found: JsonObject = {}
    if after.username != before.username:
        found["username"] = after.username
    if after.persona_prompt != before.persona_prompt:
        found["persona_prompt"] = after.persona_prompt
    if after.selected_persona != before.selected_persona:
        found["selected_persona"] = after.selected_persona
    if after.personas != before.personas:
        found["personas"] = [
            {key: getattr(persona, name) for name, key in _PERSONA_KEYS.items()} for persona in after.personas
        ]
    if after.preset != before.preset:
        found["preset"] = after.preset.to_json()
    if after.presets != before.presets:
        found["presets"] = [preset.to_json() for preset in after.presets]
    if after.raw is not before.raw and (changed := _changed(before.raw, after.raw)):
        found["raw"] = changed
    return found


def with_settings_changes(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """The settings with what ``settings_changes()`` found; what is none of that is left out."""
    found: dict[str, object] = {}
    for name, kind in (("username", str), ("persona_prompt", str), ("selected_persona", int)):
        if isinstance(changes.get(name), kind):
            found[name] = changes[name]
    personas, preset, presets, raw = (changes.get(name) for name in ("personas", "preset", "presets", "raw"))
    if is_sequence(personas):
        found["personas"] = tuple(RisuPersona.from_json(each) for each in personas if is_mapping(each))
    if is_mapping(preset):
        found["preset"] = Preset.from_json(preset)
    if is_sequence(presets):
        found["presets"] = tuple(Preset.from_json(each) for each in presets if is_mapping(each))
    if is_mapping(raw):
        found["raw"] = freeze_object({**settings.raw, **raw})
    return settings.replace(**found)


def _changed(before: Mapping[str, FrozenJson], after: Mapping[str, FrozenJson]) -> JsonObject:
    return {key: thaw(value) for key, value in after.items() if key not in before or before[key] != value}
