"""Ready-made tool-calling options for providers and models: they are merged with the application's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def tool_calling(**options: object) -> Options:
    """Make a preset from the given options only."""
    return merge(options)


def request_overrides(overrides: Mapping[str, object]) -> Options:
    """Make a preset that adds to the request body."""
    return {"request_overrides": dict(overrides)}


def message_transforms(*names: str) -> Options:
    """Make a preset of message transforms."""
    return {"message_transforms": list(names)}


def tool_transforms(*names: str) -> Options:
    """Make a preset of tool transforms."""
    return {"tool_transforms": list(names)}


def response_transforms(*names: str) -> Options:
    """Make a preset of response transforms."""
    return {"response_transforms": list(names)}


def tool_call_transforms(*names: str) -> Options:
    """Make a preset of tool-call transforms."""
    return {"tool_call_transforms": list(names)}


def tool_result_transforms(*names: str) -> Options:
    """Make a preset of tool-result transforms."""
    return {"tool_result_transforms": list(names)}


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


def openai_compatible_reliability(
    *, parallel_tool_calls: bool | None = None, enable_content_tag_fallback: bool = False
) -> Options:
    """Return a preset for servers that speak OpenAI's protocol imperfectly."""
    transforms = [*RELIABLE_RESPONSE_TRANSFORMS, *([CONTENT_TAG_TRANSFORM] if enable_content_tag_fallback else [])]
    options = merge(response_transforms(*transforms), tool_call_transforms(*RELIABLE_TOOL_CALL_TRANSFORMS))
    if parallel_tool_calls is not None:
        options["request_overrides"] = {"parallel_tool_calls": parallel_tool_calls}
    return options


def deepseek_openrouter_compat() -> Options:
    """Return a preset for DeepSeek's models on OpenRouter."""
    return message_transforms("assistant_tool_calls_reasoning_content_empty_if_missing")


def gemini_openrouter_compat() -> Options:
    """Return a preset for Gemini on OpenRouter."""
    return message_transforms("assistant_tool_calls_signature_skip_validator_if_missing")


def openrouter_routing(
    *,
    route: str | None = None,
    transforms: Sequence[str] | None = None,
    provider_only: Sequence[str] | None = None,
    provider_order: Sequence[str] | None = None,
    provider_ignore: Sequence[str] | None = None,
) -> Options:
    """Return the request body keys that control OpenRouter's routing."""
    routing: Options = {}
    if route is not None:
        routing["route"] = route
    if transforms is not None:
        routing["transforms"] = list(transforms)
    chosen = {"only": provider_only, "order": provider_order, "ignore": provider_ignore}
    provider = {key: list(names) for key, names in chosen.items() if names}
    if provider:
        routing["provider"] = provider
    return routing


def openrouter_tool_calling(
    *,
    route: str | None = None,
    transforms: Sequence[str] | None = None,
    provider_only: Sequence[str] | None = None,
    provider_order: Sequence[str] | None = None,
    provider_ignore: Sequence[str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Options:
    """Make a preset of OpenRouter's routing and other request body keys."""
    routing = openrouter_routing(
        route=route,
        transforms=transforms,
        provider_only=provider_only,
        provider_order=provider_order,
        provider_ignore=provider_ignore,
    )
    body = deep_merge(routing, overrides or {})
    return request_overrides(body) if body else {}


def vllm() -> Options:
    """Return a preset for vLLM: one call at a time, and calls that its parser left in the text."""
    return openai_compatible_reliability(enable_content_tag_fallback=True)


def llama_cpp() -> Options:
    """Return a preset for llama.cpp's server: as for vLLM, and retries without tools if a template refuses them."""
    return merge(openai_compatible_reliability(enable_content_tag_fallback=True), {"fallback_retry_count": 1})


def provider_defaults(provider: str) -> Options:
    """The preset of a provider; empty for an unknown one."""
    name = provider_id(provider)
    if name == "openrouter":
        return merge(openai_compatible_reliability(parallel_tool_calls=False), openrouter_tool_calling())
    if name in ("openai", "volcano_engine"):
        return openai_compatible_reliability(parallel_tool_calls=False)
    if name in ("vllm", "llama_cpp"):
        return vllm() if name == "vllm" else llama_cpp()
    return {}


def model_defaults(model: str) -> Options:
    """The preset of a model; empty for one without quirks."""
    options: Options = {}
    if model == "minimax/minimax-m2-her":
        options = merge(options, {"tool_use_mode": "disabled"})
    if model.startswith("deepseek/"):
        options = merge(options, deepseek_openrouter_compat())
    if model.startswith("google/gemini-"):
        options = merge(options, gemini_openrouter_compat())
    if "reasoner" in model:
        options = merge(options, message_transforms("assistant_tool_calls_reasoning_content_empty_if_missing"))
    return options


def preset_for(provider: str, model: str) -> Options:
    """Return all defaults of a model, below the application's own options."""
    return merge(default_tool_calling(), provider_defaults(provider), model_defaults(model))
