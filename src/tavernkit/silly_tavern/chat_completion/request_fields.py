"""The fields SillyTavern sends along with the messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tavernkit.errors import Warn
from tavernkit.silly_tavern.chat_completion.reasoning_effort import reasoning_effort
from tavernkit.silly_tavern.chat_completion.tools import Tool, tools_callable
from tavernkit.silly_tavern.files.preset import Preset
from tavernkit.silly_tavern.files.settings import PowerUser
from tavernkit.silly_tavern.text_completion.stop_strings import custom_stop_strings
from tavernkit.text.js_values import utf16_length
from tavernkit.values import JsonObject, thaw

SEED_SOURCES = (
    "openai",
    "azure_openai",
    "openrouter",
    "mistralai",
    "custom",
    "cohere",
    "groq",
    "electronhub",
    "nanogpt",
    "xai",
    "pollinations",
    "aimlapi",
    "vertexai",
    "makersuite",
    "chutes",
)
SEVERAL_REPLIES_SOURCES = ("openai", "azure_openai", "custom", "xai", "aimlapi", "moonshot")
SINGLE_REPLY_TYPES = ("quiet", "impersonate", "continue")
GOOGLE = ("makersuite", "vertexai")
OPENAI = ("openai", "azure_openai")

DEFAULT_STOP_COUNT = 4
STOP_COUNTS: dict[str, int | None] = {
    "claude": None,
    "mistralai": None,
    "chutes": None,
    "makersuite": 5,
    "vertexai": 5,
    "cohere": 5,
    "zai": 1,
}
"""Sources with a limit of their own (``None`` is without limit); they send the key even when it is empty."""

GOOGLE_STOP_LENGTH = 16

SAMPLERS = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias", "stop")
OPENROUTER_FIELDS = {
    "use_fallback": "openrouter_use_fallback",
    "provider": "openrouter_providers",
    "quantizations": "openrouter_quantizations",
    "allow_fallbacks": "openrouter_allow_fallbacks",
    "middleout": "openrouter_middleout",
}
_O_SERIES = re.compile(r"o[134]")
_GPT_5_WITH_TEMPERATURE = re.compile(r"gpt-5\.[1-4]")
_REASONING_GROK = re.compile(r"grok-4|grok-code|grok-3-mini")


@dataclass(frozen=True, slots=True)
class RequestInput:
    """What the fields depend on besides the preset."""

    generation_type: str
    user_name: str
    character_name: str
    group_names: tuple[str, ...]
    max_tokens: int
    tools: Sequence[Tool]
    expand: Callable[[str], str]
    power_user: PowerUser
    warn: Warn


def request_fields(preset: Preset, given: RequestInput) -> JsonObject:
    """All fields of the request but ``messages``."""
    fields: JsonObject = {
        "type": given.generation_type,
        "model": preset.model,
        "temperature": preset.temperature,
        "frequency_penalty": preset.frequency_penalty,
        "presence_penalty": preset.presence_penalty,
        "top_p": preset.top_p,
        "max_tokens": given.max_tokens,
        "stream": preset.stream_openai and given.generation_type != "quiet" and not _is_first_o1(preset),
    }
    stops = stopping_strings(given.power_user, given.expand, given.warn)
    if stops:
        fields["stop"] = list(stops[:DEFAULT_STOP_COUNT])
    fields["chat_completion_source"] = preset.chat_completion_source
    several = _several_replies(preset, given.generation_type)
    if several:
        fields["n"] = preset.n
    fields |= {
        "user_name": given.user_name,
        "char_name": given.character_name,
        "group_names": list(given.group_names),
        "include_reasoning": preset.show_thoughts,
    }
    effort = reasoning_effort(preset)
    if effort is not None:
        fields["reasoning_effort"] = effort
    fields |= {
        "enable_web_search": preset.enable_web_search,
        "request_images": preset.request_images,
        "request_image_resolution": preset.request_image_resolution,
        "request_image_aspect_ratio": preset.request_image_aspect_ratio,
        "custom_prompt_post_processing": preset.custom_prompt_post_processing,
    }
    if preset.verbosity != "auto":
        fields["verbosity"] = preset.verbosity
    _add_source_fields(fields, preset, given)
    _set_stops(fields, preset, stops)
    if _sends_seed(preset):
        fields["seed"] = preset.seed
    if given.tools and not several and tools_callable(preset, given.generation_type):
        fields["tools"] = [tool.to_json() for tool in given.tools]
        fields["tool_choice"] = "auto"
    _apply_model_rules(fields, preset)
    return fields


def system_becomes_user(preset: Preset) -> bool:
    """Whether the model takes no system role."""
    return _bare_model(preset).startswith("o1") and preset.chat_completion_source in (*OPENAI, "openrouter")


def stopping_strings(power_user: PowerUser, expand: Callable[[str], str], warn: Warn) -> list[str]:
    """The user's own stop strings: a JSON list of texts, macros expanded if that is switched on."""
    texts = custom_stop_strings(power_user.custom_stopping_strings, warn)
    return [expand(text) for text in texts] if power_user.custom_stopping_strings_macro else texts


def _set_stops(fields: JsonObject, preset: Preset, stops: list[str]) -> None:
    source = preset.chat_completion_source
    if source in STOP_COUNTS:
        chosen = stops[: STOP_COUNTS[source]]
        if source in GOOGLE:
            chosen = [text for text in chosen if 1 <= utf16_length(text) <= GOOGLE_STOP_LENGTH]
        fields["stop"] = list(chosen)
    elif source == "perplexity" or (source == "xai" and _is_reasoning_grok(preset, stops=True)):
        fields.pop("stop", None)


def _add_source_fields(fields: JsonObject, preset: Preset, given: RequestInput) -> None:
    source = preset.chat_completion_source
    if source == "claude":
        fields |= {"top_k": preset.top_k, "use_sysprompt": preset.use_sysprompt}
        continues = given.generation_type == "continue" and preset.continue_prefill
        if given.generation_type != "quiet" and not continues:
            impersonates = given.generation_type == "impersonate"
            prefill = preset.assistant_impersonation if impersonates else preset.assistant_prefill
            fields["assistant_prefill"] = given.expand(prefill)
    elif source == "openrouter":
        fields |= {
            "top_k": preset.top_k,
            "min_p": preset.min_p,
            "repetition_penalty": preset.repetition_penalty,
            "top_a": preset.top_a,
            **{name: thaw(preset.get(key)) for name, key in OPENROUTER_FIELDS.items()},
        }
    elif source in GOOGLE:
        fields |= {"top_k": preset.top_k, "use_sysprompt": preset.use_sysprompt}
    elif source == "mistralai":
        fields["safe_prompt"] = False
    elif source == "cohere":
        fields |= {
            "top_p": min(max(preset.top_p, 0.01), 0.99),
            "frequency_penalty": min(max(preset.frequency_penalty, 0), 1),
            "presence_penalty": min(max(preset.presence_penalty, 0), 1),
            "top_k": preset.top_k,
        }
    elif source == "perplexity":
        fields["top_k"] = preset.top_k
    elif source == "zai":
        fields["zai_endpoint"] = thaw(preset.get("zai_endpoint"))
    elif source == "custom":
        fields |= {
            "custom_url": preset.custom_url,
            "custom_include_body": given.expand(preset.custom_include_body),
            "custom_exclude_body": given.expand(preset.custom_exclude_body),
            "custom_include_headers": given.expand(preset.custom_include_headers),
        }


def _apply_model_rules(fields: JsonObject, preset: Preset) -> None:
    """Take out what some models refuse."""
    source, model = preset.chat_completion_source, _bare_model(preset)
    if source == "zai" or (source == "xai" and _is_reasoning_grok(preset)):
        _drop(fields, "frequency_penalty", "presence_penalty")
    if source not in (*OPENAI, "openrouter"):
        return
    if _O_SERIES.match(model):
        fields["max_completion_tokens"] = fields.pop("max_tokens")
        _drop(fields, *SAMPLERS)
        if model.startswith("o1"):
            _drop(fields, "n", "tools", "tool_choice")
    elif "gpt-5" in preset.model:
        fields["max_completion_tokens"] = fields.pop("max_tokens")
        if "gpt-5-chat-latest" in preset.model:
            _drop(fields, "tools", "tool_choice")
        elif _GPT_5_WITH_TEMPERATURE.search(preset.model) and "reasoning_effort" not in fields:
            _drop(fields, "frequency_penalty", "presence_penalty", "logit_bias", "stop")
        else:
            _drop(fields, *SAMPLERS)


def _several_replies(preset: Preset, generation_type: str) -> bool:
    return (
        preset.n > 1
        and generation_type not in SINGLE_REPLY_TYPES
        and preset.chat_completion_source in SEVERAL_REPLIES_SOURCES
    )


def _sends_seed(preset: Preset) -> bool:
    if preset.chat_completion_source == "workers_ai":
        return preset.seed >= 1
    return preset.seed >= 0 and preset.chat_completion_source in SEED_SOURCES


def _is_first_o1(preset: Preset) -> bool:
    return preset.chat_completion_source in OPENAI and preset.model in ("o1", "o1-2024-12-17")


def _is_reasoning_grok(preset: Preset, *, stops: bool = False) -> bool:
    if stops and "grok-4-fast-non-reasoning" in preset.model:
        return False
    return bool(_REASONING_GROK.match(preset.model))


def _bare_model(preset: Preset) -> str:
    """The model's name; a router's without its ``openai/``."""
    if preset.chat_completion_source != "openrouter":
        return preset.model
    return preset.model.removeprefix("openai/") if preset.model.startswith("openai/") else ""


def _drop(fields: JsonObject, *names: str) -> None:
    for name in names:
        fields.pop(name, None)
