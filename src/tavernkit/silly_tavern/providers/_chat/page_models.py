"""The page's rules about sources and models, as tables: a new model is a new line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject

OPENAI = ("openai", "azure_openai")
OPENAI_LIKE = (*OPENAI, "openrouter")
GOOGLE = ("makersuite", "vertexai")

SEED_SOURCES = frozenset({
    *OPENAI_LIKE, *GOOGLE, "mistralai", "custom", "cohere", "groq", "electronhub", "nanogpt", "xai", "pollinations",
    "aimlapi", "chutes",
})  # fmt: skip
LOGPROBS_SOURCES = frozenset({*OPENAI_LIKE, "custom", "deepseek", "xai", "aimlapi", "chutes"})
LOGIT_BIAS_SOURCES = frozenset({*OPENAI_LIKE, "electronhub", "chutes", "custom"})
SEVERAL_REPLIES_SOURCES = frozenset({*OPENAI, "custom", "xai", "aimlapi", "moonshot"})
PROXY_SOURCES = frozenset({
    *GOOGLE, "openai", "claude", "mistralai", "deepseek", "xai", "moonshot", "zai",
})  # fmt: skip
SOURCES_WITHOUT_TOOLS = frozenset({"perplexity"})

DEFAULT_STOP_COUNT = 4
STOP_COUNTS: Mapping[str, int | None] = {
    "claude": None,
    "mistralai": None,
    "chutes": None,
    "makersuite": 5,
    "vertexai": 5,
    "cohere": 5,
    "zai": 1,
}
"""Sources with their own limit (``None`` means no limit); they send the key even if it is empty."""
SOURCES_WITHOUT_STOPS = frozenset({"perplexity"})
GOOGLE_STOP_LENGTH = 16

SOURCE_FIELDS: Mapping[str, Mapping[str, str]] = {
    "claude": {"top_k": "top_k", "use_sysprompt": "use_sysprompt"},
    "openrouter": {
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "top_a": "top_a",
        "use_fallback": "openrouter_use_fallback",
        "provider": "openrouter_providers",
        "quantizations": "openrouter_quantizations",
        "allow_fallbacks": "openrouter_allow_fallbacks",
        "middleout": "openrouter_middleout",
    },
    "nanogpt": {
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "top_a": "top_a",
        "nanogpt_provider": "nanogpt_provider",
        "nanogpt_payg_override": "nanogpt_payg_override",
    },
    "makersuite": {"top_k": "top_k", "use_sysprompt": "use_sysprompt"},
    "vertexai": {
        "top_k": "top_k",
        "use_sysprompt": "use_sysprompt",
        "vertexai_auth_mode": "vertexai_auth_mode",
        "vertexai_region": "vertexai_region",
        "vertexai_express_project_id": "vertexai_express_project_id",
    },
    "cohere": {"top_k": "top_k"},
    "perplexity": {"top_k": "top_k"},
    "electronhub": {"top_k": "top_k"},
    "chutes": {"min_p": "min_p", "repetition_penalty": "repetition_penalty"},
    "custom": {"custom_url": "custom_url"},
    "zai": {"zai_endpoint": "zai_endpoint"},
    "pollinations": {"pollinations_endpoint": "pollinations_endpoint"},
    "siliconflow": {"siliconflow_endpoint": "siliconflow_endpoint"},
    "minimax": {"minimax_endpoint": "minimax_endpoint"},
    "workers_ai": {"workers_ai_account_id": "workers_ai_account_id", "repetition_penalty": "repetition_penalty"},
    "azure_openai": {
        "azure_base_url": "azure_base_url",
        "azure_deployment_name": "azure_deployment_name",
        "azure_api_version": "azure_api_version",
    },
}
"""Fields that a source gets besides the common ones, and their keys in a preset."""

EXPANDED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "custom": ("custom_include_body", "custom_exclude_body", "custom_include_headers"),
}
"""Fields whose macros are expanded."""

SMALLEST = 2.220446049250313e-16
"""JavaScript's ``Number.EPSILON``: what the page sends instead of a zero that a source refuses."""
CLAMPS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "cohere": {"top_p": (0.01, 0.99), "frequency_penalty": (0, 1), "presence_penalty": (0, 1)},
    "minimax": {"temperature": (SMALLEST, 1)},
    "workers_ai": {"top_p": (0.001, float("inf"))},
}
"""Ranges that values are clamped to."""
ZEROS: Mapping[str, Mapping[str, float]] = {"deepseek": {"top_p": SMALLEST}, "zai": {"top_p": 0.01}}
"""What is sent instead of 0."""
POSITIVE_TOP_K: Mapping[str, float] = {"chutes": float("inf"), "workers_ai": 50}
"""Sources that get ``top_k`` only if it is more than 0, and its maximum."""

PENALTIES = ("frequency_penalty", "presence_penalty")
SAMPLERS = ("temperature", "top_p", *PENALTIES)
STOPS_AND_BIAS = ("stop", "logit_bias")
NO_TOOLS = ("tools", "tool_choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Fields that some models refuse.

    ``sources`` is empty if the rule is for all; ``model`` is searched in the name. ``if_effort`` limits the rule to
    requests with a reasoning effort; ``counts_thoughts`` sends ``max_completion_tokens`` instead of ``max_tokens``.
    """

    sources: tuple[str, ...] = ()
    model: str = ""
    fields: tuple[str, ...] = ()
    if_effort: bool = False
    counts_thoughts: bool = False


# Every matching line is applied.
REFUSALS: tuple[Refusal, ...] = (
    Refusal(sources=OPENAI, model=r"^o[134]", fields=(*SAMPLERS, *STOPS_AND_BIAS, "logprobs"), counts_thoughts=True),
    Refusal(
        sources=("openrouter",),
        model=r"^openai/o[134]",
        fields=(*SAMPLERS, *STOPS_AND_BIAS, "logprobs"),
        counts_thoughts=True,
    ),
    Refusal(sources=OPENAI, model=r"^o1", fields=("n", *NO_TOOLS)),
    Refusal(sources=("openrouter",), model=r"^openai/o1", fields=("n", *NO_TOOLS)),
    Refusal(sources=OPENAI_LIKE, model=r"gpt-5", fields=("logprobs",), counts_thoughts=True),
    Refusal(sources=OPENAI_LIKE, model=r"gpt-5-chat-latest", fields=NO_TOOLS),
    Refusal(
        sources=OPENAI_LIKE,
        model=r"^(?!.*gpt-5-chat-latest).*gpt-5\.[124]",
        fields=(*PENALTIES, *STOPS_AND_BIAS),
    ),
    Refusal(
        sources=OPENAI_LIKE,
        model=r"^(?!.*gpt-5-chat-latest).*gpt-5\.[124]",
        fields=("temperature", "top_p"),
        if_effort=True,
    ),
    Refusal(
        sources=OPENAI_LIKE,
        model=r"^(?!.*gpt-5-chat-latest)(?!.*gpt-5\.[124]).*gpt-5",
        fields=(*SAMPLERS, *STOPS_AND_BIAS),
    ),
    Refusal(
        sources=OPENAI_LIKE, model=r"gpt-6-astra", fields=("temperature", "top_p", "logprobs"), counts_thoughts=True
    ),
    Refusal(sources=OPENAI_LIKE, model=r"^(?=.*gpt).*vision", fields=(*STOPS_AND_BIAS, "logprobs")),
    # The dots of 4.5 and k2.5 match any character, as in SillyTavern's own patterns.
    Refusal(sources=OPENAI_LIKE, model=r"gpt-4.5", fields=("logprobs",)),
    Refusal(sources=("azure_openai",), model=r"^gpt-[34]", fields=("reasoning_effort",)),
    Refusal(sources=("xai",), model=r"grok-3-mini", fields=(*PENALTIES, "stop")),
    # Of xAI's models, only grok-3-mini gets an effort.
    Refusal(sources=("xai",), model=r"^(?!.*grok-3-mini)", fields=("reasoning_effort",)),
    Refusal(sources=("xai",), model=r"grok-4|grok-code", fields=PENALTIES),
    Refusal(sources=("xai",), model=r"^(?!.*grok-4-fast-non-reasoning).*(grok-4|grok-code)", fields=("stop",)),
    Refusal(sources=("moonshot",), model=r"kimi-k2.5", fields=SAMPLERS),
    Refusal(sources=("zai",), fields=PENALTIES),
    Refusal(model=r"claude-fable|claude-opus-5|claude-sonnet-5", fields=(*SAMPLERS, "top_k")),
)
EFFORT_ONLY_AT_CLAUDE = re.compile(r"claude-fable|claude-opus-5|claude-sonnet-5")
"""Models that get an effort only from their own maker's source."""

UNSTREAMED_MODELS = ("o1", "o1-2024-12-17")
"""OpenAI's models that cannot stream."""
NO_SYSTEM_ROLE: Mapping[str, str] = {"openai": r"^o1", "azure_openai": r"^o1", "openrouter": r"^openai/o1"}
"""Models whose system messages are sent as the user's."""
IMAGES_OF_USERS_ONLY = re.compile(r"deepseek-v4-flash-vision-exp", re.IGNORECASE)
"""Models that accept pictures only in the user's messages."""

TRANSLATING_SOURCES = frozenset({
    *OPENAI_LIKE, "custom", "xai", "aimlapi", "pollinations", "perplexity", "cometapi", "electronhub", "chutes",
    "deepseek", "fireworks",
})  # fmt: skip
"""Sources for which the effort is translated; others get the setting unchanged, including ``auto``."""
# The first matching line with the effort counts.
EFFORTS: tuple[tuple[tuple[str, ...], str, Mapping[str, str]], ...] = (
    (OPENAI, r"^gpt-5\.[456]", {"min": "none"}),
    (OPENAI, r"^gpt-5\.6", {"max": "xhigh"}),
    (OPENAI, r"^gpt-5", {"min": "min"}),
    (OPENAI, r"^gpt-6-astra", {"max": "max"}),
    (("deepseek",), "", {"low": "low", "medium": "high", "max": "max"}),
    (("fireworks",), "", {"max": "max"}),
    (("custom",), r"^koboldcpp/", {"min": "minimal", "max": "xhigh"}),
    ((), "", {"min": "low", "max": "high"}),
)


def translate_effort(source: str, model: str, effort: str, *, shows_thoughts: bool) -> str | None:
    """Return the ``reasoning_effort`` that the page sends; None if the field is left out."""
    if EFFORT_ONLY_AT_CLAUDE.search(model) and source != "claude":
        return None
    if source not in TRANSLATING_SOURCES:
        return effort
    if effort == "auto":
        return None
    if source == "openrouter" and effort == "min" and not shows_thoughts:
        return "none"
    for sources, pattern, efforts in EFFORTS:
        if (not sources or source in sources) and re.search(pattern, model) and effort in efforts:
            return efforts[effort]
    return effort


def takes_no_system_role(source: str, model: str) -> bool:
    """Return True if system messages must be sent as the user's."""
    return source in NO_SYSTEM_ROLE and re.search(NO_SYSTEM_ROLE[source], model) is not None


@lru_cache(maxsize=256)
def _refusals(source: str, model: str) -> tuple[Refusal, ...]:
    """The rules that fit a model."""
    own = (rule for rule in REFUSALS if not rule.sources or source in rule.sources)
    return tuple(rule for rule in own if re.search(rule.model, model))


def drop_refused(body: JsonObject, source: str, model: str) -> None:
    """Remove fields that the model refuses from a body."""
    has_effort = "reasoning_effort" in body
    for rule in _refusals(source, model):
        if rule.if_effort and not has_effort:
            continue
        for name in rule.fields:
            body.pop(name, None)
        if rule.counts_thoughts and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
