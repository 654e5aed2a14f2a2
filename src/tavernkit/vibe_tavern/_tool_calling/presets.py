"""Ready-made tool-calling options for providers and models: they are merged with the application's options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tavernkit._values import deep_merge, is_mapping
from tavernkit.vibe_tavern._capabilities import provider_id
from tavernkit.vibe_tavern._options import merge_names

LIST_OPTIONS: Final = (
    "tool_allowlist",
    "tool_denylist",
    "message_transforms",
    "tool_transforms",
    "response_transforms",
    "tool_call_transforms",
    "tool_result_transforms",
)
"""Options that are lists of names: merging combines them, an empty list or None clears them."""

RELIABLE_RESPONSE_TRANSFORMS: Final = (
    "assistant_function_call_to_tool_calls",
    "assistant_tool_calls_object_to_array",
    "assistant_tool_calls_arguments_json_string_if_hash",
)
RELIABLE_TOOL_CALL_TRANSFORMS: Final = ("assistant_tool_calls_arguments_blank_to_empty_object",)
CONTENT_TAG_TRANSFORM: Final = "assistant_content_tool_call_tags_to_tool_calls"

Options = dict[str, object]


def merge(*parts: Mapping[str, object] | None) -> Options:
    """Merge options: later parts win, ``request_overrides`` merge deeply, lists of names unite.

    None instead of overrides changes nothing; instead of a list it clears the list.
    """
    merged: Options = {}
    for part in parts:
        for key, value in (part or {}).items():
            old = merged.get(key)
            if key in LIST_OPTIONS:
                merged[key] = merge_names(old, value)
            elif key == "request_overrides" and is_mapping(old) and (value is None or is_mapping(value)):
                merged[key] = deep_merge(old, value or {})
            else:
                merged[key] = value
    return merged


def default_tool_calling() -> Options:
    """Return the preset for every provider: tools may be used, and malformed calls are accepted."""
    return {
        "tool_use_mode": "relaxed",
        "fix_empty_final": True,
        "fix_empty_final_disable_tools": True,
        "fallback_retry_count": 0,
        "response_transforms": list(RELIABLE_RESPONSE_TRANSFORMS),
        "tool_call_transforms": list(RELIABLE_TOOL_CALL_TRANSFORMS),
    }


def provider_defaults(provider: str) -> Options:
    """Return the preset of a provider; empty for an unknown one."""
    name = provider_id(provider)
    transforms: list[str] = list(RELIABLE_RESPONSE_TRANSFORMS)
    options: Options = {
        "response_transforms": transforms,
        "tool_call_transforms": list(RELIABLE_TOOL_CALL_TRANSFORMS),
    }
    if name in ("openai", "openrouter", "volcano_engine"):
        return {**options, "request_overrides": {"parallel_tool_calls": False}}
    if name in ("vllm", "llama_cpp"):  # their parsers leave calls in the text
        transforms.append(CONTENT_TAG_TRANSFORM)
        # llama.cpp refuses tools if the model's template has no place for them: it is asked again without.
        return {**options, "fallback_retry_count": 1} if name == "llama_cpp" else options
    return {}


def model_defaults(model: str) -> Options:
    """Return the preset of a model; empty for one without quirks."""
    options: Options = {}
    if model == "minimax/minimax-m2-her":
        options["tool_use_mode"] = "disabled"
    transforms: list[str] = []
    if model.startswith("google/gemini-"):
        transforms.append("assistant_tool_calls_signature_skip_validator_if_missing")
    if model.startswith("deepseek/") or "reasoner" in model:
        transforms.append("assistant_tool_calls_reasoning_content_empty_if_missing")
    return {**options, "message_transforms": transforms} if transforms else options


def preset_for(provider: str, model: str) -> Options:
    """Return all defaults of a model, below the application's own options."""
    return merge(default_tool_calling(), provider_defaults(provider), model_defaults(model))
