"""NovelAI and KoboldAI, whose protocols are their own: the page's body and the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import cast

from tavernkit._lazy import read_data
from tavernkit._text.js_values import js_lower, js_upper, utf16_slice
from tavernkit._values import Json, JsonObject, is_list
from tavernkit.silly_tavern.providers._request import (
    Connection,
    ProviderRequest,
    RequestRefusedError,
    SillyTavernConfig,
    json_headers,
    local_address,
    override_headers,
)
from tavernkit.silly_tavern.providers._text.given import (
    TextInput,
    bias_entries,
    copied_fields,
    is_whole,
    number,
    text,
    token_ids,
    tokens,
    with_defaults,
)

API, TEXT_API = "https://api.novelai.net", "https://text.novelai.net"
TEXT_API_FAMILIES = ("kayra", "erato")
"""Families that are served by the newer host, and whose replies may be longer with the highest subscription."""
MAX_LENGTH, MAX_LENGTH_UNLIMITED = 150, 250
TOKENIZED_FAMILIES = ("clio", "kayra", "erato")
"""Families whose tokenizer is known: only they get stop strings and bans."""
INSTRUCT_WINDOW = 1500
ERATO_START = "<|startoftext|><|reserved_special_token81|>"
ERATO_STOP_STARTS = (".", "!", "?", "*", '"', "_", "...", '."', '?"', '!"', ".*", ")")
"""Erato's tokens join these with a line break, so a stop string that starts with one is sent with each of them."""
TEXT_ADVENTURE = "theme_textadventure"
TEXT_ADVENTURE_END: Mapping[str, int] = {"clio": 49405, "kayra": 49405, "erato": 29}

NUMBERS = (
    "temperature", "min_length", "tail_free_sampling", "repetition_penalty", "repetition_penalty_range",
    "repetition_penalty_slope", "repetition_penalty_frequency", "repetition_penalty_presence", "top_a", "top_p",
    "top_k", "min_p", "math1_temp", "math1_quad", "math1_quad_entropy_scale", "typical_p",
)  # fmt: skip
PARAMETERS = (
    "temperature", "max_length", "min_length", "tail_free_sampling", "repetition_penalty",
    "repetition_penalty_range", "repetition_penalty_slope", "repetition_penalty_frequency",
    "repetition_penalty_presence", "top_a", "top_p", "top_k", "typical_p", "mirostat_lr", "mirostat_tau",
    "phrase_rep_pen", "stop_sequences", "generate_until_sentence", "use_cache", "return_full_text", "prefix", "order",
    "num_logprobs", "min_p", "math1_temp", "math1_quad", "math1_quad_entropy_scale",
)  # fmt: skip


def novelai_body(settings: Mapping[str, Json], given: TextInput) -> JsonObject:
    """Make the page's body."""
    chosen = with_defaults("novelai", settings)
    model = text(chosen.get("model_novel"))
    family = _family(model)
    longest = MAX_LENGTH_UNLIMITED if given.unlimited and family in TEXT_API_FAMILIES else MAX_LENGTH
    biases: list[Json] = []
    body: JsonObject = {
        "input": (ERATO_START if family == "erato" else "") + given.prompt,
        "model": model,
        "use_string": True,
        **copied_fields(chosen, {name: name for name in NUMBERS}),
        "max_length": min(given.max_tokens, longest),
        # The page no longer has these settings: not a number, which JSON writes as null.
        "mirostat_lr": None,
        "mirostat_tau": None,
        "logit_bias_exp": biases,
        "generate_until_sentence": True,
        "use_cache": False,
        "return_full_text": False,
        **copied_fields(chosen, {"order": "order"}),
    }
    if family in TOKENIZED_FAMILIES:
        body["stop_sequences"] = _stop_sequences(family, given)
        body["bad_words_ids"] = _bad_words(text(chosen.get("banned_tokens")), given)
        for ids, value in bias_entries(chosen, given):
            sequence: list[Json] = [*ids]
            biases.append(
                {"bias": value, "ensure_sequence_finish": False, "generate_once": False, "sequence": sequence}
            )
        if "}" in utf16_slice(given.prompt, -INSTRUCT_WINDOW):
            body["prefix"] = "special_instruct"
        elif "prefix" in chosen:
            body["prefix"] = chosen["prefix"]
    else:
        body["prefix"] = "vanilla"
    if given.token_probabilities:
        body["num_logprobs"] = 10
    if given.stream:
        body["streaming"] = True
    return body


def novelai_request(body: Mapping[str, Json], connection: Connection) -> ProviderRequest:
    """Make the request from the page's body."""
    if not connection.key:
        raise RequestRefusedError("novelai: an API key is needed", code="MISSING_KEY")
    model = text(body.get("model"))
    family = _family(model)
    host = TEXT_API if family in TEXT_API_FAMILIES else API
    built_in = _built_in().get(family, {})
    use_string = body.get("use_string")
    parameters: JsonObject = {
        "use_string": True if use_string is None else use_string,
        **{key: body[key] for key in PARAMETERS if key in body},
        "repetition_penalty_whitelist": _joined(built_in, body, "repetition_penalty_whitelist") or None,
        "bad_words_ids": _without_empty([
            words
            for words in _joined(built_in, body, "bad_words_ids")
            if is_list(words) and all(is_whole(each) for each in words)
        ]) or None,
        "logit_bias_exp": _joined(built_in, body, "logit_bias_exp"),
    }  # fmt: skip
    if body.get("prefix") == TEXT_ADVENTURE and family in TEXT_ADVENTURE_END:
        parameters["eos_token_id"] = TEXT_ADVENTURE_END[family]
    sent: JsonObject = {**{key: body[key] for key in ("input", "model") if key in body}, "parameters": parameters}
    path = "/ai/generate-stream" if body.get("streaming") else "/ai/generate"
    headers = json_headers({"authorization": f"Bearer {connection.key}"})
    return ProviderRequest(host + path, sent, headers, secrets=(connection.key,))


@cache
def _built_in() -> Mapping[str, JsonObject]:
    """Return NovelAI's own bans, biases and exceptions, by model family."""
    tables = read_data("tavernkit.silly_tavern.providers", "novelai_tokens.json")
    return cast("Mapping[str, JsonObject]", json.loads(tables))


def _family(model: str) -> str:
    return next((family for family in _built_in() if family in model), "")


def _joined(built_in: JsonObject, body: Mapping[str, Json], key: str) -> list[Json]:
    lists = (built_in.get(key), body.get(key))
    return [item for items in lists if is_list(items) for item in items]


def _without_empty(items: list[Json]) -> list[Json]:
    # One that directly follows another empty one is skipped, as in SillyTavern.
    index = 0
    while index < len(items):
        if not items[index]:
            del items[index]
        index += 1
    return items


def _stop_sequences(family: str, given: TextInput) -> list[Json]:
    stops = [*given.stop_strings]
    if family == "erato":
        stops += [start + stop for stop in given.stop_strings if stop.startswith("\n") for start in ERATO_STOP_STARTS]
    found = [tokens(stop, "stop_sequences", given) for stop in stops]
    return [[*ids] for ids in found if ids is not None]


def _bad_words(banned: str, given: TextInput) -> list[Json]:
    found: list[Json] = []
    for line in filter(None, banned.split("\n")):
        if line.startswith("[") and line.endswith("]"):
            ids = token_ids(line)
            if ids is None:
                given.warn(f"banned_tokens {line!r} is left out: it is not a list of token ids")
            else:
                found.append([*ids])
            continue
        spellings = [line[1:-1]] if line.startswith("{") and line.endswith("}") else _spellings(line)
        found.extend([*ids] for each in spellings if (ids := tokens(each, "banned_tokens", given)) is not None)
    return found


def _spellings(word: str) -> list[str]:
    first, rest = word[:1], word[1:]
    forms = (word, js_upper(first) + rest, js_lower(first) + rest, js_upper(word), js_lower(word))
    return list(dict.fromkeys(spelling for form in forms for spelling in (form, f" {form}")))


GUI_PRESET = "gui"
"""The preset that leaves all samplers to the server."""

SAMPLERS: Mapping[str, str] = {
    "sampler_order": "sampler_order",
    "rep_pen": "rep_pen",
    "rep_pen_range": "rep_pen_range",
    "rep_pen_slope": "rep_pen_slope",
    "temperature": "temp",
    "tfs": "tfs",
    "top_a": "top_a",
    "top_k": "top_k",
    "top_p": "top_p",
    "typical": "typical",
}
FEATURE_SAMPLERS: Mapping[str, tuple[str, ...]] = {
    "can_use_min_p": ("min_p",),
    "can_use_mirostat": ("mirostat", "mirostat_tau", "mirostat_eta"),
    "can_use_default_badwordsids": ("use_default_badwordsids",),
}
"""Samplers that only servers with a feature get."""
ALL_FEATURES = (*FEATURE_SAMPLERS, "can_use_streaming", "can_use_stop_sequence", "can_use_grammar")
"""Features of current servers: files do not contain what SillyTavern detected."""

SENT = (
    "rep_pen", "rep_pen_range", "rep_pen_slope", "temperature", "tfs", "top_a", "top_k", "top_p", "min_p", "typical",
    "sampler_order", "use_default_badwordsids", "mirostat", "mirostat_eta", "mirostat_tau", "grammar", "sampler_seed",
)  # fmt: skip
"""Fields that the server passes on unless the preset is ``GUI_PRESET``; ``grammar_retain_state`` never arrives."""


def kobold_body(settings: Mapping[str, Json], given: TextInput) -> JsonObject:
    """Make the page's body."""
    chosen = with_defaults("kobold", settings)
    body: JsonObject = {
        "prompt": given.prompt,
        "max_length": given.max_tokens,
        "max_context_length": given.max_context,
        "api_server": given.server,
    }
    if chosen.get("preset_settings") == GUI_PRESET:
        return body | {"gui_settings": True}
    can_stream = "can_use_streaming" in given.features
    body |= {
        "gui_settings": False,
        "use_world_info": False,
        "singleline": False,
        "streaming": bool(chosen.get("streaming_kobold")) and can_stream and given.generation_type != "quiet",
        "can_abort": can_stream,
        **copied_fields(chosen, SAMPLERS),
    }
    for feature, names in FEATURE_SAMPLERS.items():
        if feature in given.features:
            body |= copied_fields(chosen, {name: name for name in names})
    if "can_use_stop_sequence" in given.features:
        body["stop_sequence"] = [*given.stop_strings]
    if "can_use_grammar" in given.features:
        body["grammar"] = given.expand(text(chosen.get("grammar")))
        if given.generation_type == "continue":
            body["grammar_retain_state"] = True
    if number(chosen.get("seed"), -1) >= 0:
        body["sampler_seed"] = chosen["seed"]
    return body


def kobold_request(body: Mapping[str, Json], config: SillyTavernConfig) -> ProviderRequest:
    """Make the request from the page's body; Kobold has no keys."""
    root = local_address(text(body.get("api_server")))
    path = "/extra/generate/stream" if body.get("streaming") else "/v1/generate"
    sent: JsonObject = {
        "use_story": False,
        "use_memory": False,
        "use_authors_note": False,
        "use_world_info": False,
        **_present(body, ("prompt", "max_context_length", "max_length")),
    }
    if not body.get("gui_settings"):
        sent |= _present(body, SENT)
        sent["singleline"] = bool(body.get("singleline"))
        stops = body.get("stop_sequence")
        if stops or stops == []:  # an empty list counts as set
            sent["stop_sequence"] = stops
    return ProviderRequest(root + path, sent, override_headers(root, {}, config))


def _present(body: Mapping[str, Json], keys: tuple[str, ...]) -> JsonObject:
    return {key: body[key] for key in keys if key in body}
