"""Which options providers and models take: tables, asked by the model that a request goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from tavernkit.errors import Warn
from tavernkit.values import FrozenObject, Json, JsonObject, thaw


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRule:
    """What a protocol calls options. ``taken`` None means that unknown options are passed on."""

    name: str
    taken: frozenset[str] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names on the wire, by OpenAI's names."""
    max_stop: int | None = None
    """How many stop strings are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRule:
    """What some models of a protocol do not take."""

    dialect: str
    models: tuple[str, ...]
    """Patterns of names, with ``*``. Names with a slash are those of routers, which translate options themselves."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    refused: tuple[str, ...] = ()
    exclusive: tuple[tuple[str, ...], ...] = ()
    """Options of which only the first one given is sent."""
    max_stop: int | None = None

    def applies_to(self, dialect: str, model: str) -> bool:
        """Return True if the rule is about this model."""
        return dialect == self.dialect and any(fnmatchcase(model.lower(), pattern) for pattern in self.models)


STANDARD_OPTIONS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "logit_bias",
    "reasoning_effort",
    "verbosity",
)
"""Options of a preset that models take; the others are for the program that the preset belongs to."""

GOOGLE_GENERATION: Final = frozenset(
    (
        "temperature",
        "topP",
        "topK",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "maxOutputTokens",
        "candidateCount",
        "thinkingConfig",
        "responseModalities",
    )
)
"""Google's options that are part of ``generationConfig``."""

PROVIDERS: Final[Mapping[str, ProviderRule]] = {
    "openai": ProviderRule(name="OpenAI"),
    "anthropic": ProviderRule(
        name="Anthropic",
        taken=frozenset(
            (
                "max_tokens",
                "temperature",
                "top_p",
                "top_k",
                "thinking",
                "output_config",
                "metadata",
                "service_tier",
                "container",
            )
        ),
        renamed={"max_completion_tokens": "max_tokens"},
    ),
    "google": ProviderRule(
        name="Google",
        taken=GOOGLE_GENERATION | {"safetySettings", "cachedContent", "labels"},
        renamed={
            "top_p": "topP",
            "top_k": "topK",
            "presence_penalty": "presencePenalty",
            "frequency_penalty": "frequencyPenalty",
            "max_tokens": "maxOutputTokens",
            "max_completion_tokens": "maxOutputTokens",
            "n": "candidateCount",
            "thinking_config": "thinkingConfig",
            "response_modalities": "responseModalities",
            "safety_settings": "safetySettings",
            "cached_content": "cachedContent",
        },
        max_stop=5,
    ),
}
"""Rules of protocols; one that is not listed takes everything."""

_SAMPLERS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
)
_NEW_LIMIT: Final = {"max_tokens": "max_completion_tokens"}

MODELS: Final[tuple[ModelRule, ...]] = (
    ModelRule(dialect="openai", models=("o1*",), renamed=_NEW_LIMIT, refused=_SAMPLERS),
    ModelRule(dialect="openai", models=("o3*", "o4*"), renamed=_NEW_LIMIT, refused=(*_SAMPLERS, "stop")),
    ModelRule(
        dialect="openai",
        models=("gpt-5", "gpt-5-mini*", "gpt-5-nano*", "gpt-5-pro*", "gpt-5-codex*", "gpt-5-20*"),
        renamed=_NEW_LIMIT,
        refused=(*_SAMPLERS, "stop"),
    ),
    ModelRule(
        dialect="openai",
        models=("gpt-5.[0-9]*",),
        renamed=_NEW_LIMIT,
        refused=("frequency_penalty", "presence_penalty", "logit_bias", "stop"),
    ),
    ModelRule(dialect="openai", models=("gpt-5-chat*",), renamed=_NEW_LIMIT),
    ModelRule(dialect="openai", models=("gpt-3*", "gpt-4*", "chatgpt-*", "gpt-5-chat*", "o1*"), max_stop=4),
    ModelRule(
        dialect="anthropic",
        models=("claude-opus-4-[1-9]*", "claude-sonnet-4-5*", "claude-haiku-4-5*"),
        exclusive=(("temperature", "top_p"),),
    ),
)
"""Rules of models; all that apply count."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The options that are sent, by their names on the wire."""

    options: JsonObject
    stop: list[Json]


def accepted(dialect: str, model: str, options: FrozenObject, stop: Sequence[str], warn: Warn) -> Accepted:
    """Pick and rename the options that a model takes; the others are left out with a warning that names them.

    Args:
        dialect: The protocol.
        model: The model that is asked.
        options: The options, by OpenAI's names.
        stop: Stop strings.
        warn: Called with what is left out.
    """
    provider = PROVIDERS.get(dialect, ProviderRule(name=dialect))
    rules = [rule for rule in MODELS if rule.applies_to(dialect, model)]
    renamed = {**provider.renamed}
    for rule in rules:
        renamed.update(rule.renamed)
    refused = {name for rule in rules for name in rule.refused}
    for group in (group for rule in rules for group in rule.exclusive):
        refused.update([name for name in group if options.get(name) is not None][1:])
    sent: JsonObject = {}
    unknown: list[str] = []
    unwanted: list[str] = []
    for name, value in options.items():
        target = renamed.get(name, name)
        if value is None:
            continue
        if provider.taken is not None and target not in provider.taken:
            unknown.append(name)
        elif name in refused:
            unwanted.append(name)
        else:
            sent[target] = thaw(value)
    if stop and "stop" in refused:
        unwanted.append("stop")
        stop = ()
    if unknown:
        warn(f"{provider.name} does not take {', '.join(sorted(unknown))}: left out of the request")
    if unwanted:
        warn(f"{model} does not take {', '.join(sorted(unwanted))}: left out of the request")
    return Accepted(sent, _stops(stop, provider, rules, warn))


def _stops(stop: Sequence[str], provider: ProviderRule, rules: Sequence[ModelRule], warn: Warn) -> list[Json]:
    limits = [limit for limit in (provider.max_stop, *(rule.max_stop for rule in rules)) if limit is not None]
    allowed = min(limits, default=len(stop))
    if len(stop) > allowed:
        warn(f"only {allowed} stop strings are taken: {', '.join(map(repr, stop[allowed:]))} left out of the request")
    return list[Json](stop[:allowed])
