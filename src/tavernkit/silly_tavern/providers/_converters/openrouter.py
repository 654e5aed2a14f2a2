"""OpenRouter's own formats: audio, signatures and cache marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tavernkit._text.js_values import to_string
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.silly_tavern.providers._config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._converters.claude import cache_mark, turns_at_depth
from tavernkit.silly_tavern.providers._converters.messages import Messages, copied, part_url, tool_calls

_DATA_URL = re.compile(r"^data:([^;,]*+)[^,]*+,(.*)$", re.DOTALL)
_SIGNATURE_FORMATS = (
    ("google/gemini", "google-gemini-v1"),
    ("anthropic/claude", "anthropic-claude-v1"),
    ("openai/gpt", "openai-responses-v1"),
    ("x-ai/grok", "xai-responses-v1"),
)


def embed_media(messages: Sequence[JsonObject], *, audio: bool = True) -> Messages:
    """Convert audio in data URLs to ``input_audio`` parts."""
    turns = copied(messages)
    for turn in turns:
        content = turn.get("content")
        if audio and is_list(content):
            turn["content"] = [_audio_part(part) for part in content]
    return turns


def _audio_part(part: Json) -> Json:
    if not is_object(part) or part.get("type") != "audio_url":
        return part
    found = _DATA_URL.match(part_url(part, "audio_url"))
    if not found:
        return part
    sound_format = "wav" if found[1] == "audio/wav" else "mp3"
    return {"type": "input_audio", "input_audio": {"format": sound_format, "data": found[2]}}


def add_signatures(messages: Sequence[JsonObject], model: str, config: SillyTavernConfig = DEFAULT_CONFIG) -> Messages:
    """Move signatures of messages and tool calls into ``reasoning_details``."""
    signature_format = next((value for name, value in _SIGNATURE_FORMATS if name in model), "unknown")
    turns = copied(messages)
    for turn in turns:
        details: list[Json] = []
        _collect(turn, None, details, signature_format, keep=config.gemini_thought_signatures)
        for call in tool_calls(turn):
            _collect(call, call.get("id"), details, signature_format, keep=True)
        if details:
            turn["reasoning_details"] = details
    return turns


def _collect(owner: JsonObject, identifier: Json, details: list[Json], signature_format: str, *, keep: bool) -> None:
    signature = owner.get("signature")
    if not isinstance(signature, str):
        return
    del owner["signature"]
    if signature and keep:
        details.append({
            "index": len(details),
            "id": to_string(identifier) if identifier else f"signature-{len(details)}",
            "type": "reasoning.encrypted",
            "data": signature,
            "format": signature_format,
        })  # fmt: skip


def cache_at_depth(messages: Sequence[JsonObject], depth: int, ttl: str) -> Messages:
    """Put cache marks at ``depth`` and two role changes deeper, looking past system messages."""
    turns = copied(messages)
    for turn in turns_at_depth(turns, depth, skip_system=True):
        _mark_last_part(turn, ttl)
    return turns


def _mark_last_part(turn: JsonObject, ttl: str) -> None:
    content = turn.get("content")
    if isinstance(content, str):
        turn["content"] = [{"type": "text", "text": content, "cache_control": cache_mark(ttl)}]
    elif is_list(content) and content and is_object(content[-1]):
        content[-1]["cache_control"] = cache_mark(ttl)


def cache_system_prompt(messages: Sequence[JsonObject], ttl: str | None = None) -> Messages:
    """Put a cache mark on the first system message, unless it has one."""
    turns = copied(messages)
    system = next((turn for turn in turns if turn.get("role") == "system"), None)
    if system is None or "cache_control" in system:
        return turns
    content = system.get("content")
    if is_list(content):
        parts = [part for part in content if is_object(part)]
        if any("cache_control" in part for part in parts):
            return turns
        texts = [part for part in parts if part.get("type") == "text"]
        if texts:
            texts[-1]["cache_control"] = cache_mark(ttl)
    elif isinstance(content, str):
        system["content"] = [{"type": "text", "text": content, "cache_control": cache_mark(ttl)}]
    return turns
