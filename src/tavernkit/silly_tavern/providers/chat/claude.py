"""Requests to Anthropic's API."""

from __future__ import annotations

import re

from tavernkit.silly_tavern.providers.chat.request import PageRequest, ProviderRequest, without_schema_mark
from tavernkit.silly_tavern.providers.converters.caching import cache_at_depth, cache_mark
from tavernkit.silly_tavern.providers.converters.claude import convert_claude
from tavernkit.silly_tavern.providers.converters.messages import Messages, function_of, present
from tavernkit.silly_tavern.providers.converters.reasoning import claude_budget
from tavernkit.values import Json, JsonObject, is_list, is_object

VERSION = "2023-06-01"
BETAS = ("output-128k-2025-02-19", "context-1m-2025-08-07")
TOOLS_BETA = "tools-2024-05-16"
CACHING_BETAS = ("prompt-caching-2024-07-31", "extended-cache-ttl-2025-04-11")
MOST_TOKENS_RAISED = 1024

_THINKING = re.compile(r"^claude-(3-7|opus-4|sonnet-4|haiku-4-5)")
_ONE_SAMPLER = re.compile(r"^claude-(opus|sonnet|haiku)-4-[156]")
_NO_SAMPLING = re.compile(r"^claude-((opus|sonnet|haiku)-4-[78]|((opus|sonnet|haiku)-)?5(?!\d)|fable)")
_SOMETIMES_ADAPTIVE = re.compile(r"^claude-(opus|sonnet)-4-6")
"""Models that think adaptively if the server's settings allow it; those without sampling always do."""


def claude_request(given: PageRequest) -> ProviderRequest:
    """Make a request of the messages endpoint."""
    use_system_prompt = given.flag("use_sysprompt")
    tools = _tools(given)
    schema = given.json_schema
    prompt = convert_claude(
        given.messages,
        prefill=given.text("assistant_prefill"),
        use_system_prompt=use_system_prompt,
        use_tools=bool(tools),
        names=given.names,
        config=given.config,
    )
    body: JsonObject = {"system": prompt.system_prompt} if use_system_prompt else {}
    body["model"] = given.model
    body.update(given.pick(("max_tokens", "temperature", "top_p", "top_k")))
    body["stop_sequences"] = given.body.get("stop") or []
    body["stream"] = given.flag("stream")
    if tools:
        body["tools"] = [*tools]
        choice = given.body.get("tool_choice")
        if choice is not None:
            body["tool_choice"] = _tool_choice(choice)
    if schema is not None:
        body["tools"] = [*tools, _schema_tool(schema)]
        body["tool_choice"] = {"type": "tool", "name": schema.get("name")}
    messages = _cache(body, prompt.messages, given)
    no_prefill = _matches(_NO_SAMPLING, given.model) or _matches(_SOMETIMES_ADAPTIVE, given.model)
    if _set_sampling_and_thinking(body, given) or no_prefill:
        _trailing_assistant_as_user(messages)
    body["messages"] = [*messages]
    return ProviderRequest("/messages", body, _headers(given, tools=bool(tools)))


def _tools(given: PageRequest) -> list[JsonObject]:
    return [
        without_schema_mark(
            present(function_of(tool), name="name", description="description", input_schema="parameters"),
            "input_schema",
        )
        for tool in given.tools
        if tool.get("type") == "function"
    ]


def _tool_choice(choice: Json) -> JsonObject:
    # A named function is written as Anthropic wants it; other choices go out under the word they came with.
    return {"type": "tool", "name": function_of(choice).get("name")} if is_object(choice) else {"type": choice}


def _schema_tool(schema: JsonObject) -> JsonObject:
    return {
        "name": schema.get("name"),
        "description": schema.get("description") or "Well-formed JSON object",
        "input_schema": schema.get("value"),
    }


def _set_sampling_and_thinking(body: JsonObject, given: PageRequest) -> bool:
    """Bring sampling and thinking into what the model allows; tell whether it thinks."""
    model = given.model
    no_sampling = _matches(_NO_SAMPLING, model)
    sometimes = given.config.claude_enable_adaptive_thinking and _matches(_SOMETIMES_ADAPTIVE, model)
    adaptive = no_sampling or sometimes
    if no_sampling:
        _drop(body, "temperature", "top_p", "top_k")
    elif _matches(_ONE_SAMPLER, model):
        top_p = body.get("top_p")
        _drop(body, "temperature" if isinstance(top_p, (int, float)) and top_p < 1 else "top_p")
    effort = given.text("reasoning_effort") or "auto"
    budget = claude_budget(given.number("max_tokens"), effort, stream=given.flag("stream"), adaptive=adaptive)
    if adaptive:
        return _think_adaptively(body, given, budget, no_sampling=no_sampling)
    if not _matches(_THINKING, model) or not isinstance(budget, int):
        return False
    if given.number("max_tokens") <= MOST_TOKENS_RAISED:
        body["max_tokens"] = given.number("max_tokens") + MOST_TOKENS_RAISED
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    _drop(body, "temperature", "top_p", "top_k")
    return True


def _think_adaptively(body: JsonObject, given: PageRequest, effort: Json, *, no_sampling: bool) -> bool:
    if effort is None:
        return False
    thinking: JsonObject = {"type": "adaptive"}
    if no_sampling and given.flag("include_reasoning"):
        thinking["display"] = "summarized"
    body["thinking"] = thinking
    body["output_config"] = {"effort": effort}
    _drop(body, "top_k")
    return True


def _trailing_assistant_as_user(messages: Messages) -> None:
    if messages and messages[-1].get("role") == "assistant":
        messages[-1]["role"] = "user"


def _cache(body: JsonObject, messages: Messages, given: PageRequest) -> Messages:
    config = given.config
    if config.claude_enable_system_prompt_cache:
        for key in ("system", "tools"):
            parts = body.get(key)
            if is_list(parts) and parts and is_object(parts[-1]):
                parts[-1]["cache_control"] = cache_mark(config.cache_ttl)
    if config.claude_caching_at_depth >= 0:
        return cache_at_depth(messages, config.claude_caching_at_depth, config.cache_ttl)
    return messages


def _headers(given: PageRequest, *, tools: bool) -> dict[str, str]:
    betas = [*BETAS]
    if tools:
        betas.append(TOOLS_BETA)
    if given.config.claude_enable_system_prompt_cache or given.config.claude_caching_at_depth >= 0:
        betas.extend(CACHING_BETAS)
    return {"anthropic-version": VERSION, "anthropic-beta": ",".join(betas)}


def _matches(pattern: re.Pattern[str], model: str) -> bool:
    return pattern.search(model) is not None


def _drop(body: JsonObject, *keys: str) -> None:
    for key in keys:
        body.pop(key, None)
