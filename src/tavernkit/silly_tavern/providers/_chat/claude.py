"""Requests to Anthropic's API."""

from __future__ import annotations

from tavernkit._values import Json, JsonObject, is_object
from tavernkit.silly_tavern.providers._chat.models import Claude, claude_traits
from tavernkit.silly_tavern.providers._chat.page_body import Made, PageBody
from tavernkit.silly_tavern.providers._chat.schemas import flatten_schema
from tavernkit.silly_tavern.providers._converters.claude import cache_at_depth, cache_mark, convert_claude
from tavernkit.silly_tavern.providers._converters.messages import Messages, function_of, present
from tavernkit.silly_tavern.providers._converters.reasoning import claude_budget

VERSION = "2023-06-01"
BETAS = ("output-128k-2025-02-19", "context-1m-2025-08-07")
TOOLS_BETA = "tools-2024-05-16"
CACHING_BETAS = ("prompt-caching-2024-07-31", "extended-cache-ttl-2025-04-11")
EFFORT_BETA = "effort-2025-11-24"
WEB_SEARCH: JsonObject = {"type": "web_search_20250305", "name": "web_search"}
FEW_TOKENS = 1024
"""A reply of at most this many tokens gets as many more if the model thinks."""
SAMPLERS = ("temperature", "top_p", "top_k")


def claude_request(given: PageBody) -> Made:
    """Make a request to the messages endpoint (provider_requests §4.1, in its order)."""
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
    if with_system_prompt:
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
        # A missing top_p is not below 1, but null is, as JavaScript compares.
        below_one = "top_p" in given.body and given.number("top_p") < 1
        body.pop("temperature" if below_one else "top_p", None)
    if Claude.NO_SAMPLING in traits:
        _drop(body, *SAMPLERS)


def _set_thinking(body: JsonObject, given: PageBody, traits: frozenset[Claude]) -> bool:
    """Set how much the model thinks, as the page requests; return True if it thinks."""
    if Claude.THINKS not in traits:
        return False
    allowed = given.config.claude_enable_adaptive_thinking and Claude.ADAPTIVE_IF_ALLOWED in traits
    adaptive = Claude.NO_SAMPLING in traits or allowed
    tokens = int(given.number("max_tokens"))
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
        body["max_tokens"] = tokens + FEW_TOKENS
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    _drop(body, *SAMPLERS)
    return True


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
    if messages and messages[-1].get("role") == "assistant":
        messages[-1]["role"] = "user"


def _headers(given: PageBody, *, with_effort: bool) -> dict[str, str]:
    betas = [*BETAS]
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
