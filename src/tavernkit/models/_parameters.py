"""Tables of the options that providers and models accept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Final

from tavernkit._dataclass import dataclass


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
NEUTRAL: Final[Mapping[str, float]] = {
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
REFUSED_WHILE_THINKING: Final[Mapping[str, tuple[str, ...]]] = {
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
