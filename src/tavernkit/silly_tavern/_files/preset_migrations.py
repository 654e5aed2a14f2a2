"""Migrates old preset keys, as SillyTavern does when it loads a preset."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tavernkit._values import FrozenJson, Json, JsonObject, is_object, thaw

OLD_PROMPT_KEYS: Mapping[str, str] = {"main_prompt": "main", "nsfw_prompt": "nsfw", "jailbreak_prompt": "jailbreak"}
"""Texts of very old presets and the prompt each belongs to."""

RENAMED_KEYS: Mapping[str, str] = {
    "openrouter_sort_models": "sort_models",
    "openrouter_group_models": "group_models",
}


def migrate(data: Mapping[str, object], name: str, *, default_prompts: FrozenJson) -> JsonObject:
    """Return the preset with current keys. A preset without old keys is returned unchanged."""
    preset = {key: thaw(value) for key, value in data.items()}
    for step in _STEPS:
        step(preset)
    if name != "Default":  # SillyTavern leaves the old texts of its own preset alone
        _move_old_prompts(preset, default_prompts)
    return preset


def _names(preset: JsonObject) -> None:
    if preset.pop("names_in_completion", False):
        preset["names_behavior"] = 1


def _source(preset: JsonObject) -> None:
    if preset.get("chat_completion_source") == "palm":
        preset["chat_completion_source"] = "makersuite"


def _post_processing(preset: JsonObject) -> None:
    if preset.get("custom_prompt_post_processing") == "claude":
        preset["custom_prompt_post_processing"] = "merge"


def _media(preset: JsonObject) -> None:
    old = [preset.pop(key) for key in ("image_inlining", "video_inlining", "audio_inlining") if key in preset]
    if old and "media_inlining" not in preset:
        preset["media_inlining"] = any(old)


def _system_prompt_switch(preset: JsonObject) -> None:
    old = [preset.pop(key) for key in ("claude_use_sysprompt", "use_makersuite_sysprompt") if key in preset]
    if any(old):
        preset["use_sysprompt"] = True


def _renames(preset: JsonObject) -> None:
    for old, new in RENAMED_KEYS.items():
        if old in preset:
            value = preset.pop(old)
            preset.setdefault(new, value)


_STEPS: tuple[Callable[[JsonObject], None], ...] = (
    _names,
    _source,
    _post_processing,
    _media,
    _system_prompt_switch,
    _renames,
)


def _move_old_prompts(preset: JsonObject, default_prompts: FrozenJson) -> None:
    texts = {identifier: preset.pop(key) for key, identifier in OLD_PROMPT_KEYS.items() if key in preset}
    if not any(texts.values()):
        return
    defaults = thaw(default_prompts)
    known = defaults if isinstance(defaults, list) else []
    found = preset.get("prompts")
    prompts = found if isinstance(found, list) and found else list(known)
    preset["prompts"] = prompts
    for identifier, text in texts.items():
        if text:
            _set_content(prompts, known, identifier, text)


def _set_content(prompts: list[Json], known: list[Json], identifier: str, text: Json) -> None:
    """Put a text into the prompt with that identifier; if it is missing, the built-in one is added."""
    for listed in (prompts, known):
        prompt = next((each for each in listed if is_object(each) and each.get("identifier") == identifier), None)
        if prompt is not None:
            prompt["content"] = text
            if listed is known:
                prompts.append(prompt)
            return
