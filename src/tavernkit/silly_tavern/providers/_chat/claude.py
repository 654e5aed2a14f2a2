"""Anthropic's API: the messages and the request, as SillyTavern makes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import JSSyntaxError, json_parse, json_stringify, to_string, trim_end
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.dialects._shapes import anthropic_block
from tavernkit.silly_tavern.providers._chat.messages import (
    MessageConversionError,
    Messages,
    PromptNames,
    ToolArgumentsError,
    copied,
    function_of,
    part_url,
    present,
    tool_calls,
)
from tavernkit.silly_tavern.providers._chat.models import Claude, claude_traits
from tavernkit.silly_tavern.providers._chat.page_body import Made, PageBody, flatten_schema
from tavernkit.silly_tavern.providers._request import DEFAULT_CONFIG, SillyTavernConfig

VERSION = "2023-06-01"
BETAS = ("output-128k-2025-02-19", "context-1m-2025-08-07")
TOOLS_BETA = "tools-2024-05-16"
CACHING_BETAS = ("prompt-caching-2024-07-31", "extended-cache-ttl-2025-04-11")
EFFORT_BETA = "effort-2025-11-24"
WEB_SEARCH: JsonObject = {"type": "web_search_20250305", "name": "web_search"}
LEAST_THINKING_TOKENS = 1024
MOST_THINKING_TOKENS_WITHOUT_STREAMING = 21333
_THINKING_SHARES: Mapping[str, float] = {"low": 0.1, "medium": 0.25, "high": 0.5, "max": 0.95}
_ADAPTIVE_EFFORTS: Mapping[str, str] = {"min": "low", "low": "low", "medium": "medium", "high": "high", "max": "max"}
FEW_TOKENS = 1024
"""A reply of at most this many tokens gets as many more if the model thinks."""
SAMPLERS = ("temperature", "top_p", "top_k")


def claude_request(given: PageBody) -> Made:
    """Make a request to the messages endpoint."""
    traits = claude_traits(given.model)
    with_system_prompt = given.is_set("use_sysprompt")
    tools = _tools(given)
    prompt = convert_claude(
        given.messages,
        prefill=given.text("assistant_prefill"),
        use_system_prompt=with_system_prompt,
        use_tools=bool(given.tools),
        names=given.names,
        config=given.config,
    )
    body: JsonObject = {
        **given.pick(("model", "max_tokens", *SAMPLERS, "stream")),
        "stop_sequences": given.stops,
    }
    if with_system_prompt:  # even if there is none
        body["system"] = _cached(given, prompt.system_prompt)
    if given.tools:
        # Any choice, even a named function, is sent as a type.
        body["tool_choice"] = present({**given.body}, type="tool_choice")
    _add_schema(body, tools, given, traits)
    if Claude.SEARCHES in traits and given.is_set("enable_web_search"):
        tools.insert(0, {**WEB_SEARCH})
    if tools or given.tools:
        body["tools"] = tools
    messages = prompt.messages
    if given.config.claude_caching_at_depth >= 0:
        messages = cache_at_depth(messages, given.config.claude_caching_at_depth, given.config.cache_ttl)
    _limit_samplers(body, given, traits)
    if _set_thinking(body, given, traits) or Claude.NO_PREFILL in traits:
        _trailing_assistant_as_user(messages)
    turns: list[Json] = [*messages]
    body["messages"] = turns
    return Made(body, _headers(given, with_effort=_set_effort(body, given, traits)))


def _tools(given: PageBody) -> list[Json]:
    tools: list[Json] = []
    for tool in given.tools:
        # Other kinds of tools are left out.
        if tool.get("type") == "function":
            function = present(function_of(tool), name="name", description="description", input_schema="parameters")
            if "input_schema" in function:
                function["input_schema"] = flatten_schema(function["input_schema"], given.source)
            tools.append(function)
    return _cached(given, tools)


def _cached(given: PageBody, parts: list[Json]) -> list[Json]:
    """Return parts with a cache mark on the last one, if the server's settings say so."""
    if given.config.claude_enable_system_prompt_cache and parts and is_object(parts[-1]):
        parts[-1]["cache_control"] = cache_mark(given.config.cache_ttl)
    return parts


def _add_schema(body: JsonObject, tools: list[Json], given: PageBody, traits: frozenset[Claude]) -> None:
    schema = given.json_schema
    if schema is None:
        return
    if Claude.SCHEMA_FORMAT in traits:
        body["output_config"] = {"format": {"type": "json_schema", **present(schema, schema="value")}}
        return
    tools.append(
        {
            **present(schema, name="name", input_schema="value"),
            "description": schema.get("description") or "Well-formed JSON object",
        }
    )
    body["tool_choice"] = {"type": "tool", **present(schema, name="name")}


def _limit_samplers(body: JsonObject, given: PageBody, traits: frozenset[Claude]) -> None:
    if Claude.ONE_SAMPLER in traits:
        # A top_p below 1 wins, whatever the temperature is.
        body.pop("temperature" if given.number("top_p") < 1 else "top_p", None)
    if Claude.NO_SAMPLING in traits:
        _drop(body, *SAMPLERS)


def _set_thinking(body: JsonObject, given: PageBody, traits: frozenset[Claude]) -> bool:
    """Set how much the model thinks, as the page requests; return True if it thinks."""
    if Claude.THINKS not in traits:
        return False
    allowed = given.config.claude_enable_adaptive_thinking and Claude.ADAPTIVE_IF_ALLOWED in traits
    adaptive = Claude.NO_SAMPLING in traits or allowed
    tokens = given.max_tokens
    budget = claude_budget(tokens, given.effort, stream=given.is_set("stream"), adaptive=adaptive)
    shows_thoughts = given.is_set("include_reasoning")
    if isinstance(budget, str):
        thinking: JsonObject = {"type": "adaptive"}
        if Claude.NO_SAMPLING in traits and shows_thoughts:
            thinking["display"] = "summarized"
        body["thinking"] = thinking
        _output_config(body)["effort"] = budget
        _drop(body, "top_k")
        return True
    if Claude.SUMMARIZES in traits and given.effort == "auto" and shows_thoughts:
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        return True
    if budget is None:
        return False
    if tokens <= FEW_TOKENS:
        # The budget stays that of the shorter reply.
        body["max_tokens"] = tokens + FEW_TOKENS
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    _drop(body, *SAMPLERS)
    return True


def claude_budget(max_tokens: int, effort: str, *, stream: bool, adaptive: bool = False) -> int | str | None:
    """Return the thinking tokens of Claude, or an effort for adaptive models; None leaves it to the provider."""
    if adaptive:
        return _ADAPTIVE_EFFORTS.get(effort)
    if effort == "auto":
        return None
    # An unknown effort gets the least.
    budget = LEAST_THINKING_TOKENS if effort == "min" else math.floor(max_tokens * _THINKING_SHARES.get(effort, 0))
    budget = max(budget, LEAST_THINKING_TOKENS)
    return budget if stream else min(budget, MOST_THINKING_TOKENS_WITHOUT_STREAMING)


def _set_effort(body: JsonObject, given: PageBody, traits: frozenset[Claude]) -> bool:
    """Send the verbosity as effort, unless one is already set; return True if sent."""
    config = body.get("output_config")
    has_effort = is_object(config) and "effort" in config
    if Claude.EFFORT not in traits or not given.is_set("verbosity") or has_effort:
        return False
    _output_config(body)["effort"] = given.body["verbosity"]
    return True


def _output_config(body: JsonObject) -> JsonObject:
    config = body.setdefault("output_config", {})
    assert is_object(config)
    return config


def _trailing_assistant_as_user(messages: Messages) -> None:
    # It is not merged with the user's turn before it.
    if messages and messages[-1].get("role") == "assistant":
        messages[-1]["role"] = "user"


def _headers(given: PageBody, *, with_effort: bool) -> dict[str, str]:
    betas = [*BETAS]  # in every request, even to models that do not need them
    if given.tools:
        betas.append(TOOLS_BETA)
    if given.config.claude_enable_system_prompt_cache or given.config.claude_caching_at_depth >= 0:
        betas.extend(CACHING_BETAS)
    if with_effort:
        betas.append(EFFORT_BETA)
    return {"anthropic-version": VERSION, "anthropic-beta": ",".join(betas)}


def _drop(body: JsonObject, *keys: str) -> None:
    for key in keys:
        body.pop(key, None)


ZERO_WIDTH_SPACE = "\u200b"


@dataclass(frozen=True, slots=True)
class ClaudePrompt:
    """Turns, and the parts of the system prompt."""

    messages: Messages
    system_prompt: list[Json]


def convert_claude(
    messages: Sequence[JsonObject],
    *,
    prefill: str = "",
    use_system_prompt: bool = True,
    use_tools: bool = True,
    names: PromptNames,
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> ClaudePrompt:
    """Separate the leading system messages, turn the rest into user and assistant turns of parts, merge neighbours."""
    turns = copied(messages)
    system_prompt: list[Json] = []
    if use_system_prompt:
        while turns and turns[0].get("role") == "system":
            first = turns.pop(0)
            names.name_example(first)
            system_prompt.append(anthropic_block("text", **present(first, text="content")))
        if not turns:
            turns.append({"role": "user", "content": config.prompt_placeholder})
    for turn in turns:
        _to_parts(turn, names)
    _move_assistant_images(turns)
    if prefill:
        turns.append({"role": "assistant", "content": [anthropic_block("text", text=trim_end(prefill))]})
    merged = _merge(turns)
    if not use_tools:
        for turn in merged:
            turn["content"] = [_tool_part_as_text(part) for part in _parts(turn)]
    return ClaudePrompt(merged, system_prompt)


def _to_parts(turn: JsonObject, names: PromptNames) -> None:
    calls = turn.get("tool_calls")
    if turn.get("role") == "assistant" and is_list(calls):
        # The text that comes with the calls is not sent, not even with an empty list of calls.
        turn["content"] = [_tool_use(call) for call in tool_calls(turn)]
    if turn.get("role") == "tool":
        result = present(turn, tool_use_id="tool_call_id", content="content")
        turn["content"] = [anthropic_block("tool_result", **result)]
        turn["role"] = "user"
    if turn.get("role") == "system":
        names.name_example(turn)
        turn["role"] = "user"
        turn.pop("name", None)
    name = turn.get("name")
    # Unlike for other providers, the name is written even if the text begins with it.
    prefix = to_string(name) + ": " if name else ""
    content = turn.get("content")
    if is_list(content):
        turn["content"] = [_part(part, prefix) for part in content]
    elif isinstance(content, str):
        turn["content"] = [anthropic_block("text", text=prefix + content)]
    for key in ("name", "tool_calls", "tool_call_id"):
        turn.pop(key, None)


def _tool_use(call: JsonObject) -> JsonObject:
    function = function_of(call)
    used = anthropic_block("tool_use", **present(call, id="id"))
    used.update(present(function, name="name", input="arguments"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            used["input"] = json_parse(arguments)
        except JSSyntaxError as error:
            raise ToolArgumentsError(
                f"the arguments of a call of {function.get('name')!r} are not JSON: {error}"
            ) from error
    return used


def _part(part: Json, prefix: str) -> Json:
    if not is_object(part):
        return part
    if part.get("type") == "image_url":
        source: JsonObject = {"type": "base64"}
        # SillyTavern sends other addresses than data URLs as pictures without type and data.
        url = part_url(part, "image_url")
        _, colon, media_type = url.split(";")[0].partition(":")
        if colon:
            source["media_type"] = media_type.split(":")[0]
        if "," in url:
            source["data"] = url.split(",")[1]
        return anthropic_block("image", source=source)
    if part.get("type") == "text":
        text = part.get("text")
        return {**part, "text": prefix + (to_string(text) if text else "") or ZERO_WIDTH_SPACE}
    return part


def _move_assistant_images(turns: Messages) -> None:
    index = 0
    while index < len(turns):
        turn = turns[index]
        images = [part for part in _parts(turn) if _is_image(part)] if turn.get("role") == "assistant" else []
        if images:
            target = index + 1
            while target < len(turns) and turns[target].get("role") != "user":
                target += 1
            if target >= len(turns):
                # The new turn follows directly, but the images go where the search ended: SillyTavern's own order.
                turns.insert(index + 1, {"role": "user", "content": []})
            turns[target]["content"] = [*_parts(turns[target]), *images]
            turn["content"] = [part for part in _parts(turn) if not _is_image(part)]
        index += 1


def _merge(turns: Messages) -> Messages:
    merged: Messages = []
    for turn in turns:
        if merged and merged[-1].get("role") == turn.get("role"):
            merged[-1]["content"] = [*_parts(merged[-1]), *_parts(turn)]
        else:
            merged.append(turn)
    return merged


def _tool_part_as_text(part: Json) -> Json:
    if is_object(part) and part.get("type") == "tool_use":
        written: JsonObject = {"text": json_stringify(part["input"])} if "input" in part else {}
        return anthropic_block("text", **written)
    if is_object(part) and part.get("type") == "tool_result":
        return anthropic_block("text", **present(part, text="content"))
    return part


def _is_image(part: Json) -> bool:
    return is_object(part) and part.get("type") == "image"


def _parts(turn: JsonObject) -> list[Json]:
    content = turn.get("content")
    if not is_list(content):
        raise MessageConversionError(
            f"the content of a {turn.get('role')} message must be text or a list of parts, not {type(content).__name__}"
        )
    return content


def cache_mark(ttl: str | None) -> JsonObject:
    """Return a ``cache_control`` value; without a time, the provider's default applies."""
    return {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}


def cache_at_depth(messages: Sequence[JsonObject], depth: int, ttl: str) -> Messages:
    """Put cache marks at ``depth`` and two role changes deeper, counted from the end without the prefill."""
    turns = copied(messages)
    for turn in turns_at_depth(turns, depth):
        _last_part(turn)["cache_control"] = cache_mark(ttl)
    return turns


def turns_at_depth(turns: Messages, depth: int, *, skip_system: bool = False) -> list[JsonObject]:
    """Return the messages at ``depth`` role changes from the end, and at two more, ignoring a prefill."""
    found: list[JsonObject] = []
    passed_prefill = False
    switches = 0
    previous: Json = ""
    for turn in reversed(turns):
        role = turn.get("role")
        if not passed_prefill and role == "assistant":
            continue
        passed_prefill = True  # a system message ends the prefill, even where it is skipped
        if role == previous or (skip_system and role == "system"):
            continue
        if switches in (depth, depth + 2):
            found.append(turn)
        switches += 1
        previous = role
    return found


def _last_part(turn: JsonObject) -> JsonObject:
    content = turn.get("content")
    if not is_list(content) or not content or not is_object(content[-1]):
        raise MessageConversionError("a message to be cached must have a list of parts that is not empty")
    return content[-1]
