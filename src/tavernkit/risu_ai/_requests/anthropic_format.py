"""Requests in Anthropic's format."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._text.js_values import trim
from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_mapping, is_object
from tavernkit.dialects._shapes import anthropic_base64, anthropic_block, split_data_url
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._models import parameters_of
from tavernkit.risu_ai._requests.messages import RequestRules, tool_outcomes, without_tool_calls
from tavernkit.risu_ai._requests.parameters import is_switched_off, parameter_values

VERSION = "2023-06-01"
BEDROCK_VERSION = "bedrock-2023-05-31"
LONG_REPLY = 8192
LONG_REPLY_BETA, LONG_CACHE_BETA = "output-128k-2025-02-19", "extended-cache-ttl-2025-04-11"
_THINKING = "thinking_tokens"
_START = "Start"


def anthropic_body(
    rules: RequestRules,
    wire_name: str,
    messages: Sequence[PromptMessage],
    *,
    max_tokens: int,
    stream: bool,
    mode: str,
) -> JsonObject:
    """Write a messages request."""
    system, chat = _split(rules, messages)
    body: JsonObject = {"model": wire_name, "messages": [*chat]}
    if not chat and system is not None:
        body["messages"] = [_message("user", [_text(_START)])]
        system = None  # RisuAI sends nothing else of such a prompt
    elif chat and chat[0]["role"] != "user":
        body["messages"] = [_message("user", [_text(_START)]), *chat]
    if rules.proxied:
        body["messages"] = [_plain(each) for each in _objects(body["messages"])]
    if system is not None:
        body["system"] = system
    return {**body, "max_tokens": max_tokens, "stream": stream, **_parameters(rules, mode)}


def bedrock_body(rules: RequestRules, messages: Sequence[PromptMessage], *, max_tokens: int, mode: str) -> JsonObject:
    """Write the same request for AWS Bedrock, where the model is part of the address."""
    body = anthropic_body(rules, "", messages, max_tokens=max_tokens, stream=False, mode=mode)
    del body["model"], body["stream"]
    thinking = body.get("thinking")
    if is_object(thinking) and thinking.get("type") == "enabled":
        body["temperature"] = 1
        for name in ("top_k", "top_p"):
            body.pop(name, None)
    return {**body, "anthropic_version": BEDROCK_VERSION}


def anthropic_headers(rules: RequestRules, max_tokens: int) -> dict[str, str]:
    """The version, and what is still a beta."""
    betas = (
        *((LONG_REPLY_BETA,) if max_tokens > LONG_REPLY else ()),
        *((LONG_CACHE_BETA,) if rules.setting("claude1HourCaching") else ()),
    )
    headers = {"anthropic-version": VERSION}
    if betas:
        headers["anthropic-beta"] = ",".join(betas)
    return headers


def _parameters(rules: RequestRules, mode: str) -> JsonObject:
    """``thinking`` stays as an empty object where nothing is stored, as RisuAI sends it."""
    names = parameters_of(rules.model)
    values = parameter_values(rules, names, mode=mode)
    written: JsonObject = {}
    for name in names:
        if name != _THINKING:
            written.update({name: values[name]} if name in values else {})
        elif name not in values and not is_switched_off(rules, name, mode=mode):
            written["thinking"] = {}
        elif isinstance(tokens := values.get(name), (int, float)) and tokens > 0:
            written["thinking"] = {"budget_tokens": tokens, "type": "enabled"}
    return written


def _split(rules: RequestRules, messages: Sequence[PromptMessage]) -> tuple[str | None, list[JsonObject]]:
    system: list[str] = []
    chat: list[JsonObject] = []
    for message in messages:
        role, content = message.role, message.content
        if role == "system" and not chat:
            system.append(content)
        elif role == "system":
            _add(chat, "user", "System: " + content, message, rules)
        elif role in ("user", "assistant"):
            _add(chat, role, content, message, rules)
    return (trim(join("\n\n", system)) if system else None), chat


def _add(chat: list[JsonObject], role: str, content: str, message: PromptMessage, rules: RequestRules) -> None:
    text = without_tool_calls(content)
    outcomes = tool_outcomes(content, rules.tool_calls)
    for outcome in outcomes:
        use = anthropic_block("tool_use", id=outcome.id, name=outcome.name, input=outcome.arguments)
        given = anthropic_block("tool_result", tool_use_id=outcome.id, content=outcome.result)
        chat += [_message("assistant", [use]), _message("user", [given])]
    if outcomes and not trim(text) and not message.multimodals:
        return
    media = [part for each in message.multimodals if is_mapping(each) and (part := _media(each)) is not None]
    if chat and chat[-1]["role"] == role:
        joined = chat[-1]["content"]
        assert isinstance(joined, list)
        last = joined[-1] if joined else None
        if is_object(last) and last.get("type") == "text":
            last["text"] = str(last["text"]) + "\n\n" + text
        else:
            joined.append(_text(text))
        joined[:0] = media
        marked = joined[-1]  # RisuAI marks the last block of a joined message, but the first of a new one
    else:
        blocks: list[Json] = [*media, _text(text)]
        chat.append(_message(role, blocks))
        marked = blocks[0]
    if message.cache_point and is_object(marked):
        control: JsonObject = {"type": "ephemeral"}
        if rules.setting("claude1HourCaching"):
            control["ttl"] = "1h"
        marked["cache_control"] = control


def _media(part: object) -> JsonObject | None:
    if not is_mapping(part) or part.get("type") != "image":
        return None
    url = part.get("url")
    kind, data = split_data_url(url) or (part.get("media_type"), part.get("data"))
    if isinstance(data, str):
        return anthropic_block("image", source=anthropic_base64(str(kind or "image/png"), data))
    return anthropic_block("image", source={"type": "url", "url": url}) if isinstance(url, str) else None


def _message(role: str, content: list[Json]) -> JsonObject:
    return {"role": role, "content": content}


def _text(text: str) -> JsonObject:
    return anthropic_block("text", text=text)


def _objects(value: Json) -> list[JsonObject]:
    return [each for each in value if is_object(each)] if isinstance(value, list) else []


def _plain(message: JsonObject) -> JsonObject:
    """For proxies the content is the text of the first block."""
    blocks = _objects(message["content"])
    return {**message, "content": blocks[0].get("text") if blocks else ""}
