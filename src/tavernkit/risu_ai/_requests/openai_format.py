"""Requests in OpenAI's format and those close to it: Mistral's, the Responses API and the old instruct models."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tavernkit._text.js_values.convert import own_keys
from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, thaw
from tavernkit.errors import Warn
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._models import LEGACY_MODEL, parameters_of
from tavernkit.risu_ai._requests.messages import RequestRules
from tavernkit.risu_ai._requests.parameters import parameter_values, wanted_schema

Encode = Callable[[str], Sequence[int]]
"""Turns a text into the numbers of its tokens."""

COMPLETION_TOKENS = "OAICompletionTokens"
OPENROUTER_MODEL = "openrouter"
MISTRAL_PARAMETERS = ("temperature", "presence_penalty", "frequency_penalty", "top_p")
RESPONSES_PARAMETERS = ("temperature", "top_p")
LEGACY_STOPS = ("User:", " User:", "user:", " user:")
_TOKEN = re.compile(r"\[\[(\d{1,15})\]\]")
_BAN = -101


def openai_body(
    rules: RequestRules,
    wire_name: str,
    messages: list[JsonObject],
    *,
    max_tokens: int,
    stream: bool,
    text: str | None,
    encode: Encode | None,
    mode: str,
    warn: Warn,
) -> JsonObject:
    """Write a chat completion request."""
    body: JsonObject = {"model": wire_name, "messages": [*messages], "max_tokens": max_tokens}
    bias = logit_bias(rules, encode, warn)
    if bias:
        body["logit_bias"] = bias
    body["stream"] = stream
    if COMPLETION_TOKENS in rules.flags:
        body["max_completion_tokens"] = body.pop("max_tokens")
    seed, prediction = rules.setting("generationSeed"), rules.setting("OAIPrediction")
    if isinstance(seed, (int, float)) and seed > 0:
        body["seed"] = seed
    schema = wanted_schema(rules)
    if schema is not None:
        strict = thaw(rules.setting("strictJsonSchema", True))
        written: JsonObject = {"name": "format", "strict": strict, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": written}
    if isinstance(prediction, str) and prediction:
        body["prediction"] = {"type": "content", "content": prediction}
    if rules.model == OPENROUTER_MODEL:
        _openrouter(body, rules)
        if rules.preset.use_instruct_prompt and text is not None:
            del body["messages"]
            body["prompt"] = text
    return {**body, **_parameters(rules, mode)}


def _parameters(rules: RequestRules, mode: str) -> JsonObject:
    values = parameter_values(rules, parameters_of(rules.model), mode=mode)
    values.pop("thinking_tokens", None)  # has no place in this format
    return values


def _openrouter(body: JsonObject, rules: RequestRules) -> None:
    if rules.setting("openrouterFallback", True):
        body["route"] = "fallback"
    body["transforms"] = ["middle-out"] if rules.setting("openrouterMiddleOut") else []
    provider = rules.setting("openrouterProvider")
    wanted: JsonObject = {
        key: thaw(provider[key]) for key in ("order", "only", "ignore") if is_mapping(provider) and provider.get(key)
    }
    if wanted:
        body["provider"] = wanted


def logit_bias(rules: RequestRules, encode: Encode | None, warn: Warn) -> JsonObject:
    """The weights of tokens: ``[[123]]`` is a token's number, other texts are split into tokens."""
    listed = rules.setting("bias") if rules.bias is None else rules.bias
    weights: dict[str, Json] = {}
    for row in listed if is_sequence(listed) else ():
        if not is_sequence(row) or len(row) < 2 or not isinstance(row[0], str) or not row[0]:
            continue
        weight = row[1]
        if not isinstance(weight, (int, float)) or weight == _BAN:
            warn(f"the bias of {row[0][:40]!r} is not sent: {weight!r:.40} is not a weight")
            continue
        number = _TOKEN.fullmatch(row[0])
        if number is None and encode is None:
            warn(f"the bias of {row[0][:40]!r} is not sent: its tokens are not known here")
            continue
        tokens = [int(number[1])] if number is not None else encode(row[0]) if encode is not None else ()
        weights.update((str(token), weight) for token in tokens)
    return {key: weights[key] for key in own_keys(weights)}  # JavaScript sorts keys that are numbers


def mistral_body(rules: RequestRules, messages: list[JsonObject], *, max_tokens: int, mode: str) -> JsonObject:
    """Write a request for Mistral. The model has RisuAI's own id."""
    body: JsonObject = {"model": rules.model, "messages": [*messages], "safe_prompt": False, "max_tokens": max_tokens}
    return {**body, **parameter_values(rules, MISTRAL_PARAMETERS, mode=mode)}


def responses_body(
    rules: RequestRules, wire_name: str, messages: Sequence[PromptMessage], *, max_tokens: int, mode: str
) -> JsonObject:
    """Write a request for OpenAI's Responses API."""
    items: list[Json] = []
    for number, message in enumerate(messages, start=1):
        if message.role != "assistant":
            items.append({"content": [{"type": "input_text", "text": message.content}], "role": message.role})
            continue
        said: JsonObject = {"type": "output_text", "text": message.content, "annotations": []}
        status = "incomplete" if number == len(messages) else "complete"  # the last one is to be continued
        items.append({"content": [said], "role": "assistant", "status": status, "type": "message"})
    body: JsonObject = {
        "model": wire_name,
        "input": items,
        "max_output_tokens": max_tokens,
        "tools": [],
        "store": False,
    }
    return {**body, **parameter_values(rules, RESPONSES_PARAMETERS, mode=mode)}


_LEGACY_TITLES = {"system": "Instruction", "user": "User", "assistant": "Assistant"}


def legacy_body(rules: RequestRules, messages: Sequence[PromptMessage], *, max_tokens: int, mode: str) -> JsonObject:
    """Write a request for the instruct models of before chat."""
    sections = (
        f"\n## {_LEGACY_TITLES.get(message.role or '', 'Instruction')}\n" + message.content for message in messages
    )
    values = parameter_values(rules, ("temperature", "presence_penalty", "frequency_penalty"), mode=mode)
    body: JsonObject = {
        "model": LEGACY_MODEL,
        "prompt": join("", sections) + "\n## Response\n",
        "max_tokens": max_tokens,
    }
    if "temperature" in values:
        body["temperature"] = values.pop("temperature")
    return {**body, "top_p": 1, "stop": [*LEGACY_STOPS], **values}
