"""Sources whose requests resemble OpenAI's, but with their own fields, and messages in their formats."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tavernkit._text.js_values import join, to_string, trim, truthy
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.silly_tavern.providers._chat.message_forms import post_process
from tavernkit.silly_tavern.providers._chat.messages import (
    EXAMPLE_ASSISTANT,
    EXAMPLE_USER,
    SEPARATOR,
    Messages,
    PromptNames,
    copied,
    function_of,
    present,
    printed_content,
    string_content,
    tool_calls,
    with_prefix,
)
from tavernkit.silly_tavern.providers._chat.models import (
    COHERE_WITHOUT_SAFETY,
    MINIMAX_MAX_TOKENS,
    openai_effort,
)
from tavernkit.silly_tavern.providers._chat.page_body import (
    JSON_OBJECT,
    Made,
    PageBody,
    ask_for_schema,
    described_schema,
    named_schema,
    without_schema_mark,
)
from tavernkit.silly_tavern.providers._chat.shared import add_assistant_prefix, cache_claude, thinking_switch
from tavernkit.silly_tavern.providers._request import DEFAULT_CONFIG, SillyTavernConfig

TOOL_ID_LENGTH = 9


def convert_mistral(messages: object, *, names: PromptNames, config: SillyTavernConfig = DEFAULT_CONFIG) -> Messages:
    """Shorten tool ids, write names into messages, and reorder roles as Mistral requires."""
    turns = copied(messages)
    if config.mistral_enable_prefix and turns and turns[-1].get("role") == "assistant":
        turns[-1]["prefix"] = True
    for turn in turns:
        _shorten_tool_ids(turn)
        _write_mistral_name(turn, names)
    _fold_users_after_tools(turns)
    for before, turn in pairwise(turns):
        if before.get("role") == "assistant" and turn.get("role") == "system":
            turn["role"] = "user"
    return turns


def _shorten_tool_ids(turn: JsonObject) -> None:
    if is_list(turn.get("tool_calls")):
        for call in tool_calls(turn):
            call["id"] = _short_id(call.get("id"))
    if turn.get("role") == "tool":
        turn["tool_call_id"] = _short_id(turn.get("tool_call_id"))


def _short_id(value: Json) -> str:
    # A lone surrogate is hashed as the replacement character, as in Node.
    text = to_string(value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return hashlib.sha512(text.encode()).hexdigest()[:TOOL_ID_LENGTH]


def _write_mistral_name(turn: JsonObject, names: PromptNames) -> None:
    name = turn.get("name")
    if turn.get("role") == "system":
        if name in (EXAMPLE_USER, EXAMPLE_ASSISTANT):
            names.name_example(turn)
            del turn["name"]
        return
    prefix = to_string(name) + ": "
    # A name that the text begins with already stays in the message as well.
    if name and not string_content(turn).startswith(prefix):
        turn["content"] = prefix + string_content(turn)
        del turn["name"]


def _fold_users_after_tools(turns: Messages) -> None:
    """Append a user message after a tool result to the last earlier one with content, or leave it if there is none."""
    index = 1
    while index < len(turns):
        if turns[index].get("role") == "user" and turns[index - 1].get("role") == "tool":
            earlier = next(
                (
                    turn
                    for turn in reversed(turns[:index])
                    if turn.get("role") == "user" and truthy(turn.get("content"))
                ),
                None,
            )
            if earlier is not None:
                earlier["content"] = printed_content(earlier) + SEPARATOR + printed_content(turns[index])
                del turns[index]
                continue
        index += 1


def add_reasoning_content(messages: Sequence[JsonObject]) -> Messages:
    """Add an empty ``reasoning_content`` to messages with tool calls, if missing."""
    turns = copied(messages)
    for turn in turns:
        if is_list(turn.get("tool_calls")):
            turn.setdefault("reasoning_content", "")
    return turns


def convert_deepseek(
    messages: Sequence[JsonObject],
    *,
    tools: Json = None,
    names: PromptNames,
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> Messages:
    """Convert messages for DeepSeek as SillyTavern does."""
    merged = post_process(messages, "semi_tools", names, config)
    return add_reasoning_content(add_assistant_prefix(merged, tools, "prefix"))


CALLING_TOOLS = "I'm going to call a tool for that: "


def convert_cohere(
    messages: Sequence[JsonObject], *, names: PromptNames, config: SillyTavernConfig = DEFAULT_CONFIG
) -> Messages:
    """Add a text to every tool call and write names into messages."""
    turns = copied(messages)
    if not turns:
        turns.append({"role": "user", "content": config.prompt_placeholder})
    index = 0
    while index < len(turns):
        turn = turns[index]
        if is_list(turn.get("tool_calls")):
            if index > 0 and turns[index - 1].get("role") == "assistant":
                turn.pop("content", None)
                turn.update(present(turns[index - 1], content="content"))
                # The message after the removed one moves into its place and is skipped.
                del turns[index - 1]
            else:
                called = join([function_of(call).get("name") for call in tool_calls(turn)], ", ")
                turn["content"] = CALLING_TOOLS + called
        _write_name(turn, names)
        index += 1
    return turns


def _write_name(turn: JsonObject, names: PromptNames) -> None:
    name = turn.get("name")
    if not name:
        return
    if turn.get("role") == "system":
        names.name_example(turn)
    else:
        turn["content"] = with_prefix(string_content(turn), to_string(name))
    del turn["name"]


def convert_ai21(messages: object, *, names: PromptNames, config: SillyTavernConfig = DEFAULT_CONFIG) -> Messages:
    """Join the leading system messages into one, write names into messages, and merge neighbours."""
    if not is_list(messages):
        return []
    turns = copied(messages)
    system = ""
    while turns and turns[0].get("role") == "system":
        first = turns.pop(0)
        names.name_example(first)
        system += printed_content(first) + SEPARATOR
    if not turns:
        turns.append({"role": "user", "content": config.prompt_placeholder})
    if system:  # a system prompt of nothing but white space becomes an empty message
        turns.insert(0, {"role": "system", "content": trim(system)})
    for turn in turns:
        if "name" in turn:  # even an empty name is written: ": " comes before the text
            name = turn.pop("name")
            if turn.get("role") != "system":
                turn["content"] = with_prefix(string_content(turn), to_string(name))
    merged: Messages = []
    for turn in turns:
        if merged and merged[-1].get("role") == turn.get("role"):
            merged[-1]["content"] = printed_content(merged[-1]) + SEPARATOR + printed_content(turn)
        else:
            merged.append(turn)
    return merged


def convert_xai(messages: object, *, names: PromptNames) -> Messages:
    """Write names into messages; the names of user messages stay unchanged."""
    turns = copied(messages)
    for turn in turns:
        if not turn.get("name") or turn.get("role") == "user":
            continue
        if turn.get("role") == "assistant" and names.char_name:  # the character's name is written, not the message's
            turn["content"] = names.as_character(string_content(turn))
        names.name_example(turn)
        del turn["name"]
    return turns


FIELDS: Mapping[str, tuple[str, ...]] = {
    "mistralai": (
        "model", "temperature", "top_p", "frequency_penalty", "presence_penalty", "max_tokens", "stream",
        "safe_prompt",
    ),
    "deepseek": (
        "model", "temperature", "max_tokens", "stream", "presence_penalty", "frequency_penalty", "top_p", "stop",
        "seed",
    ),
    "xai": (
        "model", "temperature", "max_tokens", "max_completion_tokens", "stream", "presence_penalty",
        "frequency_penalty", "top_p", "seed", "n",
    ),
    "aimlapi": (
        "model", "temperature", "max_tokens", "stream", "presence_penalty", "frequency_penalty", "top_p", "seed", "n",
    ),
    "electronhub": (
        "model", "temperature", "max_tokens", "stream", "presence_penalty", "frequency_penalty", "top_p", "top_k",
        "logit_bias", "seed",
    ),
    "chutes": (  # "stop" is sent even if it is empty
        "model", "temperature", "max_tokens", "stream", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "min_p", "top_p", "top_k", "seed", "stop", "reasoning_effort", "logit_bias",
    ),
    "minimax": ("model", "temperature", "max_tokens", "stream", "top_p", "stop"),
    "ai21": ("model", "max_tokens", "temperature", "top_p", "stop", "stream", "tools"),
    "azure_openai": (
        "temperature", "frequency_penalty", "presence_penalty", "top_p", "max_tokens", "max_completion_tokens",
        "stream", "logit_bias", "stop", "n", "logprobs", "seed", "tools", "tool_choice",
    ),
}  # fmt: skip
"""Fields that are copied from the page's body."""

COHERE_FIELDS: Mapping[str, str] = {
    "model": "model",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "k": "top_k",
    "p": "top_p",
    "seed": "seed",
    "stop_sequences": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}
"""Cohere's names, and those of the page's body."""


def mistral_request(given: PageBody) -> Made:
    """Make a request to Mistral."""
    body = _body(given, convert_mistral(given.messages, names=given.names, config=given.config))
    body |= _stop(given) | given.offered_tools() | _format(given, described=True)
    if given.body.get("seed", -1) != -1:  # null is sent
        body["random_seed"] = given.body["seed"]
    return Made(body)


def deepseek_request(given: PageBody) -> Made:
    """Make a request to DeepSeek."""
    messages = given.messages
    if given.json_schema is not None:
        messages = ask_for_schema(messages, given.json_schema)
    tools = given.body.get("tools")
    converted = convert_deepseek(messages, tools=tools, names=given.names, config=given.config)
    body = _body(given, converted) | given.token_probabilities() | given.offered_tools()
    if "tools" in body:
        body["tools"] = [_without_empty_required(tool) for tool in given.tools]
    if given.json_schema is not None:
        body["response_format"] = {**JSON_OBJECT}
    # Without thoughts to show, the effort is not sent.
    if given.is_set("reasoning_effort") and given.is_set("include_reasoning"):
        body["reasoning_effort"] = given.body["reasoning_effort"]
    body["thinking"] = thinking_switch(given)
    return Made(body)


def xai_request(given: PageBody) -> Made:
    """Make a request to xAI."""
    body = _body(given, convert_xai(given.messages, names=given.names))
    body |= given.token_probabilities() | given.offered_tools() | _stop(given) | _format(given)
    if given.is_set("reasoning_effort"):
        body["reasoning_effort"] = "high" if given.effort == "high" else "low"
    return Made(body)


def aimlapi_request(given: PageBody) -> Made:
    """Make a request to AI/ML API."""
    body = _unconverted(given, given.messages) | given.token_probabilities() | given.offered_tools() | _stop(given)
    return Made(body | _effort(given) | _format(given, described=True))


def electronhub_request(given: PageBody) -> Made:
    """Make a request to Electron Hub."""
    messages = given.messages
    if given.model.startswith("claude-"):
        messages = cache_claude(given, messages)
    body = _unconverted(given, messages) | given.offered_tools() | _effort(given) | _format(given, described=True)
    if given.is_set("enable_web_search"):
        body["web_search"] = True
    return Made(body)


def chutes_request(given: PageBody) -> Made:
    """Make a request to Chutes."""
    body = _unconverted(given, given.messages) | given.offered_tools() | given.token_probabilities()
    return Made(body | _format(given, described=True))


def minimax_request(given: PageBody) -> Made:
    """Make a request to MiniMax, which gets no schema at all."""
    body = _body(given, post_process(given.messages, "merge_tools", given.names, given.config))
    most = MINIMAX_MAX_TOKENS.get(given.model)
    if most is not None and given.number("max_tokens") > most:
        body["max_tokens"] = most
    return Made(body | given.offered_tools())


def cohere_request(given: PageBody) -> Made:
    """Make a request to Cohere."""
    messages: list[Json] = [*convert_cohere(given.messages, names=given.names, config=given.config)]
    body: JsonObject = {
        **{name: given.body[key] for name, key in COHERE_FIELDS.items() if key in given.body},
        "stream": given.is_set("stream"),
        "messages": messages,
        "documents": [],
        "tools": [  # sent even if it is empty, without a tool_choice
            {**tool, "function": without_schema_mark(function_of(tool), "parameters")} if "function" in tool else tool
            for tool in given.tools
        ],
    }
    if given.model.endswith(COHERE_WITHOUT_SAFETY):
        body["safety_mode"] = "OFF"
    if given.json_schema is not None:
        body["response_format"] = {"type": "json_schema", **present(given.json_schema, schema="value")}
    return Made(body)


def ai21_request(given: PageBody) -> Made:
    """Make a request to AI21."""
    messages = given.messages
    extra: JsonObject = {}
    if given.json_schema is not None:
        # Before the conversion, so that it can be merged with the last message.
        messages = ask_for_schema(messages, given.json_schema)
        extra["response_format"] = {**JSON_OBJECT}
    return Made(_body(given, convert_ai21(messages, names=given.names, config=given.config)) | extra)


def azure_request(given: PageBody) -> Made:
    """Make a request to Azure's OpenAI service: the deployment replaces the model."""
    body = _unconverted(given, given.messages) | given.token_probabilities() | _format(given)
    effort = openai_effort(given.model, given.effort)
    if effort is not None:
        body["reasoning_effort"] = effort
    return Made(body)


def _body(given: PageBody, messages: Messages) -> JsonObject:
    turns: list[Json] = [*messages]
    return {**given.pick(FIELDS[given.source]), "messages": turns}


def _unconverted(given: PageBody, messages: Messages) -> JsonObject:
    """Return the body of a source that gets messages as they are, even if they are a text."""
    body = _body(given, messages)
    return body if given.prompt is None else {**body, "messages": given.prompt}


def _stop(given: PageBody) -> JsonObject:
    return {"stop": given.stops} if given.stops else {}


def _effort(given: PageBody) -> JsonObject:
    return given.pick(("reasoning_effort",)) if given.is_set("reasoning_effort") else {}


def _format(given: PageBody, *, described: bool = False) -> JsonObject:
    schema = given.json_schema
    if schema is None:
        return {}
    return {"response_format": described_schema(schema) if described else named_schema(schema)}


def _without_empty_required(tool: JsonObject) -> JsonObject:
    function = function_of(tool)
    parameters = function.get("parameters")
    if not is_object(parameters) or parameters.get("required") != []:
        return tool
    kept: Json = {key: value for key, value in parameters.items() if key != "required"}
    return {**tool, "function": {**function, "parameters": kept}}
