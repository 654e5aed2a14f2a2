"""Requests to OpenAI's API and to those that resemble it."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit.cards.limits import Limits
from tavernkit.cards.yaml_card import parse_yaml
from tavernkit.errors import FileFormatError, log_warning
from tavernkit.silly_tavern.providers.chat.request import PageRequest, ProviderRequest
from tavernkit.silly_tavern.providers.converters.messages import function_of
from tavernkit.silly_tavern.providers.converters.mistral import convert_mistral
from tavernkit.silly_tavern.providers.converters.openrouter import embed_media
from tavernkit.silly_tavern.providers.converters.text import convert_deepseek
from tavernkit.silly_tavern.providers.converters.xai import convert_xai
from tavernkit.text.js_values import json_stringify, to_string
from tavernkit.values import Json, JsonObject, is_list, is_object

PATH = "/chat/completions"
_COMMON = (
    "model",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "presence_penalty",
    "frequency_penalty",
    "top_p",
    "top_k",
    "stop",
    "logit_bias",
    "seed",
    "n",
    "reasoning_effort",
    "verbosity",
)


def openai_request(given: PageRequest) -> ProviderRequest:
    """Make a request of OpenAI's chat completions."""
    messages = embed_media(given.messages)
    return ProviderRequest(PATH, _body(given, messages, _COMMON) | _response_format(given))


def custom_request(given: PageRequest) -> ProviderRequest:
    """Make a request of a custom endpoint: its YAML additions and exclusions come last."""
    body = _body(given, given.messages, _COMMON) | _response_format(given)
    body.update(_yaml_object(given.text("custom_include_body")))
    for key in _yaml_keys(given.text("custom_exclude_body")):
        body.pop(key, None)
    # A header is text, so Infinity can be sent; in the body it would become null.
    included = _yaml_object(given.text("custom_include_headers"), keep_infinity=True)
    headers = {key.lower(): to_string(value) for key, value in included.items()}
    return ProviderRequest(PATH, body, headers)


def mistral_request(given: PageRequest) -> ProviderRequest:
    """Make a request of Mistral's chat completions."""
    messages = convert_mistral(given.messages, names=given.names, config=given.config)
    keys = ("model", "temperature", "top_p", "frequency_penalty", "presence_penalty", "max_tokens", "safe_prompt")
    body = _body(given, messages, keys) | _stop(given) | _response_format(given)
    seed = given.body.get("seed")
    if seed is not None and seed != -1:
        body["random_seed"] = seed
    return ProviderRequest(PATH, body)


def deepseek_request(given: PageRequest) -> ProviderRequest:
    """Make a request of DeepSeek's chat completions."""
    messages = [*given.messages]
    schema = given.json_schema
    if schema is not None:
        text = json_stringify(schema.get("value"), 4)
        messages.append({"role": "user", "content": f"JSON schema for the response:\n{text}"})
    converted = convert_deepseek(messages, tools=given.body.get("tools"), names=given.names, config=given.config)
    keys = ("model", "temperature", "max_tokens", "presence_penalty", "frequency_penalty", "top_p", "stop")
    body = _body(given, converted, (*keys, "reasoning_effort"))
    body["thinking"] = {"type": "enabled" if given.flag("include_reasoning") else "disabled"}
    if schema is not None:
        body["response_format"] = {"type": "json_object"}
    if given.tools:
        body["tools"] = [_without_empty_required(tool) for tool in given.tools]
    return ProviderRequest(PATH, body)


def xai_request(given: PageRequest) -> ProviderRequest:
    """Make a request of xAI's chat completions."""
    messages = convert_xai(given.messages, names=given.names)
    keys = ("model", "temperature", "max_tokens", "presence_penalty", "frequency_penalty", "top_p", "seed", "n")
    body = _body(given, messages, keys) | _stop(given) | _response_format(given)
    effort = given.text("reasoning_effort")
    if effort:
        body["reasoning_effort"] = "high" if effort == "high" else "low"
    return ProviderRequest(PATH, body)


def _body(given: PageRequest, messages: Iterable[JsonObject], keys: Iterable[str]) -> JsonObject:
    body = given.pick(keys)
    body["messages"] = [*messages]
    body["stream"] = given.flag("stream")
    if given.tools:
        body["tools"] = [*given.tools]
        body.update(given.pick(("tool_choice",)))
    return body


def _stop(given: PageRequest) -> JsonObject:
    return {"stop": given.body["stop"]} if given.body.get("stop") else {}


def _response_format(given: PageRequest) -> JsonObject:
    schema = given.json_schema
    if schema is None:
        return {}
    described: JsonObject = {
        "name": schema.get("name"),
        "strict": schema.get("strict", True),
        "schema": schema.get("value"),
    }
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _without_empty_required(tool: JsonObject) -> JsonObject:
    function = function_of(tool)
    parameters = function.get("parameters")
    if not is_object(parameters) or parameters.get("required") != []:
        return tool
    kept: Json = {key: value for key, value in parameters.items() if key != "required"}
    return {**tool, "function": {**function, "parameters": kept}}


def _yaml_object(text: str, *, keep_infinity: bool = False) -> JsonObject:
    """A YAML mapping, or a list of mappings taken together; what is not YAML adds nothing and is reported."""
    value = _yaml(text, keep_infinity=keep_infinity)
    if is_object(value):
        return value
    merged: JsonObject = {}
    for item in value if is_list(value) else []:
        if is_object(item):
            merged.update(item)
    return merged


def _yaml_keys(text: str) -> list[str]:
    """Names in a YAML list, the keys of a mapping, or one name."""
    value = _yaml(text)
    if is_list(value):
        return [to_string(item) for item in value]
    if is_object(value):
        return list(value)
    return [value] if isinstance(value, str) else []


def _yaml(text: str, *, keep_infinity: bool = False) -> Json:
    data = text.encode("utf-8", "surrogatepass")
    try:
        return parse_yaml(data, Limits(), log_warning, keep_infinity=keep_infinity)
    except FileFormatError as error:
        log_warning(f"a custom endpoint's YAML is ignored: {error}")
        return None
