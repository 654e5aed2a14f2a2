"""The body that SillyTavern's page makes for any text-completion backend, and the request to it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tavernkit._text.js_values import JSSyntaxError, json_parse, json_stringify, own_keys, to_string
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import ConfigError
from tavernkit.silly_tavern.providers._request import DEFAULT_CONFIG, Connection, ProviderRequest, SillyTavernConfig
from tavernkit.silly_tavern.providers._text.backends import BACKENDS, textgen_request
from tavernkit.silly_tavern.providers._text.given import (
    SINGLE_REPLY_TYPES,
    TextInput,
    bias_entries,
    copied_fields,
    number,
    text,
    token_ids,
    tokens,
    with_defaults,
)
from tavernkit.silly_tavern.providers._text.own import kobold_body, kobold_request, novelai_body, novelai_request

SERVERS: Mapping[str, str] = {
    "mancer": "https://neuro.mancer.tech",
    "togetherai": "https://api.together.xyz",
    "infermaticai": "https://api.totalgpt.ai",
    "dreamgen": "https://dreamgen.com",
    "openrouter": "https://openrouter.ai/api",
    "featherless": "https://api.featherless.ai/v1",
}
"""The addresses of hosted backends."""

OPTIONAL_MODELS: Mapping[str, str] = {
    "ooba": "custom_model",
    "generic": "generic_model",
    "tabby": "tabby_model",
    "llamacpp": "llamacpp_model",
}
"""Types that send a model only if one is chosen, and its setting."""
NAMED_MODELS = (
    "mancer", "togetherai", "infermaticai", "dreamgen", "openrouter", "vllm", "aphrodite", "ollama", "featherless",
)  # fmt: skip
"""Types that always send the model in their setting, such as ``vllm_model``."""
HUGGINGFACE_MODEL = "tgi"

DYNAMIC_TEMPERATURE = ("ooba", "mancer", "koboldcpp", "tabby", "llamacpp", "aphrodite")
SEVERAL_REPLIES = ("vllm", "infermaticai", "aphrodite", "mancer", "tabby", "llamacpp")
BAN_LISTS = ("aphrodite", "mancer")
"""Types whose ``custom_token_bans`` are a list; the others get a text."""
FEW_PROBABILITIES = ("vllm", "infermaticai")
HUGGINGFACE_STOPS, HUGGINGFACE_TOP_P = 4, 0.999
MAX_SEED = 2**32

COMMON: Mapping[str, str] = {
    **{
        name: name
        for name in (
            "top_p", "typical_p", "min_p", "top_k", "top_a", "tfs", "skew", "smoothing_factor", "smoothing_curve",
            "xtc_threshold", "xtc_probability", "min_keep", "adaptive_target", "adaptive_decay", "mirostat_mode",
            "mirostat_tau", "mirostat_eta", "max_tokens_second", "add_bos_token", "ban_eos_token",
            "skip_special_tokens", "include_reasoning", "nsigma", "dry_allowed_length", "dry_multiplier", "dry_base",
            "dry_penalty_last_n",
        )
    },
    "typical": "typical_p",
    "top_n_sigma": "nsigma",
    "repetition_penalty": "rep_pen",
    "frequency_penalty": "freq_pen",
    "presence_penalty": "presence_pen",
    "min_tokens": "min_length",
}  # fmt: skip
"""Fields that every type gets, and their settings."""

BY_TYPE: Mapping[str, Mapping[str, str]] = {
    "ooba": {
        **{
            name: name
            for name in (
                "min_length", "num_beams", "length_penalty", "early_stopping", "sampler_priority", "epsilon_cutoff",
                "eta_cutoff",
            )
        },
    },
    "mancer": {"epsilon_cutoff": "epsilon_cutoff", "eta_cutoff": "eta_cutoff"},
    "dreamgen": {"minimum_message_content_tokens": "min_length"},
    "llamacpp": {"samplers": "samplers"},
    "koboldcpp": {"sampler_order": "sampler_order"},
    "openrouter": {
        "provider": "openrouter_providers",
        "quantizations": "openrouter_quantizations",
        "allow_fallbacks": "openrouter_allow_fallbacks",
    },
}  # fmt: skip
"""Fields that only one type gets, and their settings."""

VLLM: Mapping[str, str] = {
    "ignore_eos": "ignore_eos_token",
    "spaces_between_special_tokens": "spaces_between_special_tokens",
}
APHRODITE: Mapping[str, str] = {
    **VLLM,
    "temperature_last": "temperature_last",
    "eta_cutoff": "eta_cutoff",
    "epsilon_cutoff": "epsilon_cutoff",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
}
OTHERS: Mapping[str, str] = {
    "rep_pen": "rep_pen",
    "rep_pen_range": "rep_pen_range",
    "rep_pen_slope": "rep_pen_slope",
    "repetition_penalty_range": "rep_pen_range",
    "repeat_penalty": "rep_pen",
    "repeat_last_n": "rep_pen_range",
    "mirostat": "mirostat_mode",
    "ignore_eos": "ban_eos_token",
}
OTHERS_BY_TYPE: Mapping[str, Mapping[str, str]] = {
    "ooba": {
        "encoder_repetition_penalty": "encoder_rep_pen",
        "no_repeat_ngram_size": "no_repeat_ngram_size",
        "penalty_alpha": "penalty_alpha",
        "do_sample": "do_sample",
        "temperature_last": "temperature_last",
    },
    "tabby": {
        "repetition_decay": "rep_pen_decay",
        "temperature_last": "temperature_last",
        "speculative_ngram": "speculative_ngram",
    },
}


KOBOLD, NOVELAI = "kobold", "novelai"


TEXT_BACKENDS: tuple[str, ...] = (*BACKENDS, KOBOLD, NOVELAI)
"""Every text-completion backend: SillyTavern's types, and the two with their own protocols."""


def text_page_body(backend: str, settings: Mapping[str, Json], given: TextInput) -> JsonObject:
    """Make the body that SillyTavern's page posts to its server for a text completion.

    Args:
        backend: One of ``TEXT_BACKENDS``.
        settings: Sampler settings by the names of a preset file of that backend (``temp``, ``rep_pen``, …; the
            model is one of them: ``vllm_model``, ``model_novel``, …). Missing settings have SillyTavern's defaults.
        given: The prompt and other inputs of the body.

    Raises:
        ConfigError: The backend is not known.
    """
    require_backend(backend)
    if backend == KOBOLD:
        return kobold_body(settings, given)
    if backend == NOVELAI:
        return novelai_body(settings, given)
    return textgen_body(backend, settings, given)


def text_request(
    backend: str,
    body: Mapping[str, Json],
    connection: Connection | None = None,
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> ProviderRequest:
    """Make the request that SillyTavern's server sends for a body of ``text_page_body()``.

    Args:
        backend: One of ``TEXT_BACKENDS``.
        body: The page's body; its ``api_server`` says where the backend is.
        connection: The API key, if the backend needs one.
        config: The server's settings.

    Raises:
        ConfigError: The backend is not known.
        RequestRefusedError: SillyTavern would send nothing (NovelAI without a key).
    """
    require_backend(backend)
    connection = connection or Connection()
    if backend == KOBOLD:
        return kobold_request(body, config)
    if backend == NOVELAI:
        return novelai_request(body, connection)
    return textgen_request(backend, body, connection, config)


def require_backend(backend: str) -> None:
    """Raise an error that lists the known backends if this one is unknown."""
    if backend not in TEXT_BACKENDS:
        known = ", ".join(TEXT_BACKENDS)
        raise ConfigError(f"unknown text backend {backend!r}; pass one of {known}", code="UNKNOWN_BACKEND")


def textgen_body(kind: str, settings: Mapping[str, Json], given: TextInput) -> JsonObject:
    """Make the body for one type of backend."""
    chosen = with_defaults("text", settings)
    dynamic = bool(chosen.get("dynatemp")) and kind in DYNAMIC_TEMPERATURE
    bans = _Bans(chosen, given)
    body = _common(kind, chosen, given, dynamic=dynamic)
    body["custom_token_bans"] = [*bans.ids] if kind in BAN_LISTS else ",".join(map(str, bans.ids))
    body["banned_strings"] = [*bans.strings]
    if kind in FEW_PROBABILITIES:
        body |= copied_fields(chosen, VLLM)
    elif kind == "aphrodite":
        body |= _aphrodite(chosen, dynamic=dynamic)
    else:
        body |= _others(kind, chosen, given)
    bias = chosen.get("logit_bias")
    if is_list(bias) and bias:
        # Of several values for a token, the last one counts.
        body["logit_bias"] = {str(each): value for ids, value in bias_entries(chosen, given) for each in ids}
    _finish(kind, body, chosen, given, bans)
    if given.stream:
        body["stream"] = True
    return body


def _common(kind: str, settings: JsonObject, given: TextInput, *, dynamic: bool) -> JsonObject:
    low, high = number(settings.get("min_temp")), number(settings.get("max_temp"))
    stops: list[Json] = [*given.stop_strings]
    body: JsonObject = {
        "prompt": given.prompt,
        "max_new_tokens": given.max_tokens,
        "max_tokens": given.max_tokens,
        "truncation_length": given.max_context,
        "temperature": (low + high) / 2 if dynamic else settings.get("temp"),
        "dry_sequence_breakers": _sequence_breakers(text(settings.get("dry_sequence_breakers")), given),
        "stopping_strings": [*stops],
        "stop": [*stops],
        "api_type": kind,
        "api_server": SERVERS.get(kind, given.server),
        **copied_fields(settings, COMMON),
        **copied_fields(settings, BY_TYPE.get(kind, {})),
        **_model(kind, settings),
    }
    seed = settings.get("seed")  # sent under both names
    if number(seed, -1) >= 0:
        body["sampler_seed"] = seed
        body["seed"] = seed
    if given.token_probabilities:
        body["logprobs"] = 5 if kind in FEW_PROBABILITIES else 10
    if kind in SEVERAL_REPLIES and "n" in settings:
        body["n"] = 1 if given.generation_type in SINGLE_REPLY_TYPES else settings["n"]
    if dynamic:
        body |= {
            "dynamic_temperature": True,
            "dynatemp_low": low,
            "dynatemp_high": high,
            "dynatemp_range": (high - low) / 2,
            **copied_fields(settings, {"dynatemp_exponent": "dynatemp_exponent"}),
        }
    return body


def _model(kind: str, settings: JsonObject) -> JsonObject:
    if kind == "huggingface":
        return {"model": HUGGINGFACE_MODEL}
    if kind in OPTIONAL_MODELS:
        chosen = settings.get(OPTIONAL_MODELS[kind])
        return {"model": chosen} if chosen else {}
    return copied_fields(settings, {"model": f"{kind}_model"}) if kind in NAMED_MODELS else {}


def _aphrodite(settings: JsonObject, *, dynamic: bool) -> JsonObject:
    body: JsonObject = {
        **copied_fields(settings, APHRODITE),
        "early_stopping": False,
        "include_stop_str_in_output": False,
    }
    schema = _schema(settings)
    if schema is not None:
        body["guided_json"] = schema
    elif settings.get("grammar_string"):
        body["guided_grammar"] = settings["grammar_string"]
    if dynamic:
        body |= copied_fields(settings, {"dynatemp_min": "min_temp", "dynatemp_max": "max_temp"})
    priorities = settings.get("samplers_priorities")
    # The default order is not sent.
    if priorities != with_defaults("text", {}).get("samplers_priorities"):
        body["sampler_priority"] = priorities
    return body


def _others(kind: str, settings: JsonObject, given: TextInput) -> JsonObject:
    scale = settings.get("guidance_scale", 1) if given.guidance_scale is None else given.guidance_scale
    negative = given.negative_prompt
    body: JsonObject = {
        **copied_fields(settings, OTHERS),
        **copied_fields(settings, OTHERS_BY_TYPE.get(kind, {})),
        "guidance_scale": scale,
        "negative_prompt": given.expand(text(settings.get("negative_prompt"))) if negative is None else negative,
        "n_predict": given.max_tokens,
        "num_predict": given.max_tokens,
        "num_ctx": given.max_context,
    }
    if given.token_probabilities:
        body["n_probs"] = 10
    if settings.get("grammar_string"):
        body["grammar_string"] = settings["grammar_string"]
    schema = _schema(settings)
    if schema is not None and kind in ("tabby", "llamacpp"):
        body["json_schema"] = schema
    return body


def _finish(kind: str, body: JsonObject, settings: JsonObject, given: TextInput, bans: _Bans) -> None:
    """Apply the special rules of one type."""
    if kind == "koboldcpp":
        if settings.get("grammar_string"):
            body["grammar"] = settings["grammar_string"]
            if given.generation_type == "continue":
                body["grammar_retain_state"] = True
        body["trim_stop"] = True
        body["dry_sequence_breakers"] = _breaker_list(body)
    elif kind == "huggingface":
        # Only one of the two lists of stop strings is cut.
        body["top_p"] = min(max(number(settings.get("top_p")), 0), HUGGINGFACE_TOP_P)
        body["stop"] = [*given.stop_strings[:HUGGINGFACE_STOPS]]
        body.setdefault("seed", (given.random or Random()).randrange(MAX_SEED))
    elif kind == "mancer":
        # Only this backend gets the cutoffs divided by a thousand.
        for name in ("epsilon_cutoff", "eta_cutoff"):
            body[name] = number(settings.get(name)) / 1000
        body["dynatemp_mode"] = 1 if "dynamic_temperature" in body else 0
        for theirs, ours in (("dynatemp_min", "dynatemp_low"), ("dynatemp_max", "dynatemp_high")):
            if ours in body:
                body[theirs] = body.pop(ours)
        body["dry_sequence_breakers"] = _breaker_list(body)
    elif kind in ("llamacpp", "ollama"):
        bias = body.get("logit_bias")
        pairs: list[Json] = [[int(key), bias[key]] for key in own_keys(bias)] if is_object(bias) else []
        body["logit_bias"] = [*pairs, *([each, False] for each in bans.ids)]
        body["cache_prompt"] = True
        breakers = _breaker_list(body)
        if breakers:  # an empty text is a list with an empty text, which is sent
            body["dry_sequence_breakers"] = breakers
        else:
            del body["dry_sequence_breakers"]
        if kind == "llamacpp" and "json_schema" in body:
            body.pop("grammar_string", None)
        else:  # even an empty one
            body["grammar"] = settings.get("grammar_string")


def _schema(settings: JsonObject) -> JsonObject | None:
    schema = settings.get("json_schema")
    return schema if is_object(schema) and (schema or settings.get("json_schema_allow_empty")) else None


def _sequence_breakers(breakers: str, given: TextInput) -> str:
    expanded = given.expand(breakers)
    if not expanded:
        return ""
    try:
        items = json_parse(expanded)
    except JSSyntaxError:
        items = None
    if is_list(items):
        return json_stringify([given.expand(to_string(item)) for item in items])
    return ",".join(given.expand(item) for item in expanded.split(","))


def _breaker_list(body: JsonObject) -> list[Json]:
    breakers = text(body.get("dry_sequence_breakers"))
    try:
        items = json_parse(breakers)
    except JSSyntaxError:
        items = None
    return items if is_list(items) else [*breakers.split(",")]


class _Bans:
    """Token ids and strings that must not be generated."""

    def __init__(self, settings: JsonObject, given: TextInput) -> None:
        self.ids: list[int] = []
        self.strings: list[str] = []
        if not settings.get("send_banned_tokens"):
            return
        lines = [
            line for key in ("banned_tokens", "global_banned_tokens") for line in text(settings.get(key)).split("\n")
        ]
        # Repeated lines are dropped before their macros are expanded.
        for line in dict.fromkeys(filter(None, [*lines, *given.banned_words])):
            self._add(given.expand(line), given)
        self.ids = list(dict.fromkeys(self.ids))

    def _add(self, line: str, given: TextInput) -> None:
        if line.startswith("[") and line.endswith("]"):
            ids = token_ids(line)
            if ids is None:
                given.warn(f"banned_tokens {line!r} is left out: it is not a list of token ids")
            self.ids += ids or []
        elif line.startswith('"') and line.endswith('"'):
            self.strings.append(line[1:-1])
        else:
            self.ids += tokens(line, "banned_tokens", given) or []
