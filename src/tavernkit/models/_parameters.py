"""Tables of the options that providers and models accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, Json, JsonObject, freeze_object, is_mapping, thaw
from tavernkit.errors import Warn


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRule:
    """A protocol's names of options. If ``taken`` is None, unknown options are passed on."""

    name: str
    taken: frozenset[str] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names on the wire, by OpenAI's names."""
    max_stop: int | None = None
    """How many stop strings are accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRule:
    """What some models of a protocol do not accept."""

    dialect: str
    models: tuple[str, ...]
    """Patterns of names, with ``*``. Names with a slash are those of routers, which translate options themselves."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    refused: tuple[str, ...] = ()
    exclusive: tuple[tuple[str, ...], ...] = ()
    """Options that exclude each other: only the first one with an effect is sent."""
    max_stop: int | None = None
    no_prefill: bool = False
    """True if the model refuses to continue a reply."""

    def applies_to(self, dialect: str, model: str) -> bool:
        """Return True if the rule is about this model."""
        return dialect == self.dialect and any(fnmatchcase(model.lower(), pattern) for pattern in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFields:
    """The options of one server, if they differ from those of its protocol and models.

    >>> fields = ServerFields(taken={"max_tokens", "temperature", "min_p", "stop"}, always={"cache_prompt": True})
    """

    taken: Set[str] | None = None
    """The only options that it accepts, by their names on the wire; rules about models do not apply then."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names on the wire, by OpenAI's names."""
    always: Mapping[str, object] = field(default_factory=dict[str, object])
    """Fields added to every request; they override everything else."""

    def __post_init__(self) -> None:
        if self.taken is not None:
            object.__setattr__(self, "taken", frozenset(self.taken))
        object.__setattr__(self, "always", freeze_object(self.always))

    def name(self, option: str) -> str:
        """Return the server's name of an option; the two names of the token limit are interchangeable."""
        named = self.renamed.get(option, option)
        if self.taken is not None and named not in self.taken and named in LENGTHS:
            return next((other for other in LENGTHS if other in self.taken), named)
        return named


LENGTHS: Final = ("max_tokens", "max_completion_tokens")
"""Names of the token limit on OpenAI-compatible servers."""

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
"""Options of a preset that models accept; the others are for the preset's own program."""

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

VLLM_KEYS: Final = (
    "model", "prompt", "best_of", "echo", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n",
    "presence_penalty", "seed", "stop", "stream", "suffix", "temperature", "top_p", "user", "use_beam_search",
    "top_k", "min_p", "repetition_penalty", "length_penalty", "early_stopping", "stop_token_ids", "ignore_eos",
    "min_tokens", "skip_special_tokens", "spaces_between_special_tokens", "truncate_prompt_tokens",
    "include_stop_str_in_output", "response_format", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar", "guided_decoding_backend", "guided_whitespace_pattern",
)  # fmt: skip
TOGETHER_KEYS: Final = (
    "model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "repetition_penalty", "min_p",
    "presence_penalty", "frequency_penalty", "stream", "stop",
)  # fmt: skip
INFERMATIC_KEYS: Final = (
    "model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "repetition_penalty", "stream", "stop",
    "presence_penalty", "frequency_penalty", "min_p", "seed", "ignore_eos", "n", "best_of", "min_tokens",
    "spaces_between_special_tokens", "skip_special_tokens", "logprobs",
)  # fmt: skip
OPENAI_TEXT_KEYS: Final = (
    "model", "prompt", "stream", "temperature", "top_p", "frequency_penalty", "presence_penalty", "stop", "seed",
    "logit_bias", "logprobs", "max_tokens", "n", "best_of",
)  # fmt: skip
OPENAI_TEXT_STOPS: Final = 4
OLLAMA_OPTIONS: Final = (
    "num_predict", "num_ctx", "num_batch", "stop", "temperature", "repeat_penalty", "presence_penalty",
    "frequency_penalty", "top_k", "top_p", "tfs_z", "typical_p", "seed", "repeat_last_n", "min_p",
)  # fmt: skip
"""Fields that text-completion servers accept, as recorded from SillyTavern's requests to them."""

_ONE_LIMIT: Final = {"max_completion_tokens": "max_tokens"}


def _text_rule(name: str, keys: tuple[str, ...] | None = None, *, max_stop: int | None = None) -> ProviderRule:
    """The rule of a server that speaks OpenAI's text completions."""
    taken = None if keys is None else frozenset((*keys, "stream_options"))
    return ProviderRule(name=name, taken=taken, renamed=_ONE_LIMIT, max_stop=max_stop)


PROVIDERS: Final[Mapping[str, ProviderRule]] = {
    "openai": ProviderRule(name="OpenAI"),
    "text": ProviderRule(name="text completion", renamed=_ONE_LIMIT),
    "vllm": _text_rule("vLLM", VLLM_KEYS),
    "featherless": _text_rule("Featherless", VLLM_KEYS),
    "togetherai": _text_rule("Together AI", TOGETHER_KEYS),
    "infermaticai": _text_rule("Infermatic", INFERMATIC_KEYS),
    "generic": _text_rule("the server", OPENAI_TEXT_KEYS, max_stop=OPENAI_TEXT_STOPS),
    "huggingface": _text_rule("Hugging Face", max_stop=4),
    "llamacpp": ProviderRule(
        name="llama.cpp",
        renamed={
            "max_tokens": "n_predict",
            "max_completion_tokens": "n_predict",
            "repetition_penalty": "repeat_penalty",
        },
    ),
    "ollama": ProviderRule(
        name="Ollama",
        taken=frozenset((*OLLAMA_OPTIONS, "keep_alive", "think")),
        renamed={
            "max_tokens": "num_predict",
            "max_completion_tokens": "num_predict",
            "repetition_penalty": "repeat_penalty",
        },
    ),
    "kobold": ProviderRule(
        name="KoboldAI",
        taken=frozenset(
            (
                "max_length",
                "max_context_length",
                "temperature",
                "top_p",
                "top_k",
                "top_a",
                "min_p",
                "typical",
                "tfs",
                "rep_pen",
                "rep_pen_range",
                "rep_pen_slope",
                "sampler_order",
                "sampler_seed",
                "mirostat",
                "mirostat_tau",
                "mirostat_eta",
                "grammar",
                "singleline",
            )
        ),
        renamed={
            "max_tokens": "max_length",
            "max_completion_tokens": "max_length",
            "repetition_penalty": "rep_pen",
            "typical_p": "typical",
            "seed": "sampler_seed",
        },
    ),
    "novelai": ProviderRule(
        name="NovelAI",
        taken=frozenset(
            (
                "max_length",
                "min_length",
                "temperature",
                "top_p",
                "top_k",
                "top_a",
                "min_p",
                "typical_p",
                "tail_free_sampling",
                "repetition_penalty",
                "repetition_penalty_range",
                "repetition_penalty_slope",
                "repetition_penalty_frequency",
                "repetition_penalty_presence",
                "phrase_rep_pen",
                "prefix",
                "order",
                "math1_temp",
                "math1_quad",
                "math1_quad_entropy_scale",
                "generate_until_sentence",
                "num_logprobs",
            )
        ),
        renamed={
            "max_tokens": "max_length",
            "max_completion_tokens": "max_length",
            "frequency_penalty": "repetition_penalty_frequency",
            "presence_penalty": "repetition_penalty_presence",
        },
        max_stop=0,
    ),
    "cohere_v2": ProviderRule(
        name="Cohere",
        taken=frozenset(
            (
                "max_tokens",
                "temperature",
                "p",
                "k",
                "seed",
                "frequency_penalty",
                "presence_penalty",
                "logprobs",
                "safety_mode",
                "strict_tools",
                "thinking",
                "documents",
            )
        ),
        renamed={"max_completion_tokens": "max_tokens", "top_p": "p", "top_k": "k"},
        max_stop=5,
    ),
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
"""Rules by protocol; a protocol that is not listed accepts everything."""

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
_EXTRA_SAMPLERS: Final = ("top_k", "top_a", "min_p", "repetition_penalty")
"""Samplers that OpenAI's own models refuse; servers for open models accept them."""
_NEUTRAL: Final[Mapping[str, float]] = {
    "temperature": 1,
    "top_p": 1,
    "top_k": 0,
    "top_a": 0,
    "min_p": 0,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
}
"""Values at which samplers do nothing."""
_REFUSED_WHILE_THINKING: Final[Mapping[str, tuple[str, ...]]] = {
    "enabled": ("temperature", "top_p", "top_k"),
    "adaptive": ("top_k",),
}
"""Samplers that Anthropic refuses with the option ``thinking``, by its type."""
_NEW_LIMIT: Final = {"max_tokens": "max_completion_tokens"}

MODELS: Final[tuple[ModelRule, ...]] = (
    ModelRule(dialect="openai", models=("gpt-*", "chatgpt-*", "o1*", "o3*", "o4*"), refused=_EXTRA_SAMPLERS),
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
        models=("gpt-5.[124]*",),
        renamed=_NEW_LIMIT,
        refused=("frequency_penalty", "presence_penalty", "logit_bias", "stop"),
    ),
    ModelRule(dialect="openai", models=("gpt-5.[!124]*",), renamed=_NEW_LIMIT, refused=(*_SAMPLERS, "stop")),
    ModelRule(dialect="openai", models=("gpt-5-chat*",), renamed=_NEW_LIMIT),
    ModelRule(
        dialect="openai",
        models=("gpt-6-astra*",),
        renamed=_NEW_LIMIT,
        refused=("temperature", "top_p", "logprobs", "top_logprobs"),
    ),
    ModelRule(dialect="openai", models=("gpt-3*", "gpt-4*", "chatgpt-*", "gpt-5-chat*", "o1*"), max_stop=4),
    ModelRule(
        dialect="anthropic",
        # After the version comes nothing or a date; a date right after the 4 is the older model.
        models=("claude-opus-4-[1-6]", "claude-opus-4-[1-6][!0-9]*", "claude-sonnet-4-[56]*", "claude-haiku-4-5*"),
        exclusive=(("temperature", "top_p"),),
    ),
    ModelRule(
        dialect="anthropic",
        models=("claude-opus-4-[78]*", "claude-opus-5*", "claude-sonnet-5*", "claude-fable*"),
        refused=("temperature", "top_p", "top_k"),
    ),
    ModelRule(
        dialect="anthropic",
        models=("claude-opus-4-[678]*", "claude-sonnet-4-6*", "claude-opus-5*", "claude-sonnet-5*", "claude-fable*"),
        no_prefill=True,
    ),
    ModelRule(
        dialect="google",
        models=("*gemini-3.6-flash*", "*gemini-3.7-flash*", "*gemini-3.5-flash-lite*"),
        refused=("temperature", "top_p", "top_k", "n"),
        no_prefill=True,
    ),
)
"""Rules about models; all that match apply."""


def refuses_prefill(dialect: str, model: str) -> bool:
    """Return True if a model refuses a chat that ends with its own message."""
    return any(rule.no_prefill for rule in MODELS if rule.applies_to(dialect, model))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The options that are sent, by their names on the wire."""

    options: JsonObject
    stop: list[Json]


def accepted_options(
    dialect: str,
    model: str,
    options: FrozenObject,
    stop: Sequence[str],
    warn: Warn,
    fields: ServerFields | None = None,
) -> Accepted:
    """Pick and rename the options that a model accepts; a warning names the others.

    Args:
        dialect: The protocol.
        model: The model that is asked.
        options: The options, by OpenAI's names.
        stop: Stop strings.
        warn: Called with what is left out.
        fields: The options that the server accepts, if known.
    """
    if fields is not None and fields.taken is not None:
        return _pick(fields, fields.taken, options, stop, warn)
    provider = PROVIDERS.get(dialect, ProviderRule(name=dialect))
    rules = [rule for rule in MODELS if rule.applies_to(dialect, model)]
    renamed = {**provider.renamed}
    for rule in rules:
        renamed.update(rule.renamed)
    renamed.update(fields.renamed if fields is not None else {})
    refused = {name for rule in rules for name in rule.refused}
    for group in (group for rule in rules for group in rule.exclusive):
        given = [name for name in group if options.get(name) is not None]
        refused.update(sorted(given, key=lambda name: options[name] == _NEUTRAL.get(name))[1:])
    thinking = options.get("thinking")
    if dialect == "anthropic" and is_mapping(thinking):
        refused.update(_REFUSED_WHILE_THINKING.get(str(thinking.get("type")), ()))
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
    _warn_left_out(provider.name, unknown, options, warn)
    _warn_left_out(model, unwanted, options, warn)
    return Accepted(sent, _stops(stop, provider, rules, warn))


def _warn_left_out(who: str, names: Sequence[str], options: FrozenObject, warn: Warn) -> None:
    """Warn about options that are left out, unless their value has no effect."""
    unsent = sorted(name for name in names if name not in _NEUTRAL or options.get(name) != _NEUTRAL[name])
    if unsent:
        warn(f"{who} does not take {', '.join(unsent)}: left out of the request")


def _pick(fields: ServerFields, taken: Set[str], options: FrozenObject, stop: Sequence[str], warn: Warn) -> Accepted:
    """Pick the options that a server accepts."""
    given = {name: value for name, value in options.items() if value is not None}
    unknown = [name for name in given if fields.name(name) not in taken]
    if stop and "stop" not in taken:
        unknown.append("stop")
        stop = ()
    _warn_left_out("the server", unknown, options, warn)
    sent = {fields.name(name): thaw(value) for name, value in given.items() if fields.name(name) in taken}
    return Accepted(sent, list[Json](stop))


def _stops(stop: Sequence[str], provider: ProviderRule, rules: Sequence[ModelRule], warn: Warn) -> list[Json]:
    limits = [limit for limit in (provider.max_stop, *(rule.max_stop for rule in rules)) if limit is not None]
    allowed = min(limits, default=len(stop))
    if stop and not allowed:
        warn(f"{provider.name} takes no stop strings as text: left out of the request")
    elif len(stop) > allowed:
        warn(f"only {allowed} stop strings are taken: {', '.join(map(repr, stop[allowed:]))} left out of the request")
    return list[Json](stop[:allowed])
