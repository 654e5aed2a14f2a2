"""Sources that share OpenAI's request, each with its own additions, and the formats of OpenRouter."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.silly_tavern.providers._chat.claude import cache_mark, turns_at_depth
from tavernkit.silly_tavern.providers._chat.google import safety_settings
from tavernkit.silly_tavern.providers._chat.message_forms import post_process, to_text_prompt
from tavernkit.silly_tavern.providers._chat.messages import Messages, copied, part_data, present, tool_calls
from tavernkit.silly_tavern.providers._chat.models import TEXT_MODELS, VERBOSITY_MODELS, openai_effort
from tavernkit.silly_tavern.providers._chat.page_body import (
    JSON_OBJECT,
    Made,
    PageBody,
    ask_for_schema,
    bare_schema,
    described_schema,
    named_schema,
    yaml_keys,
    yaml_object,
)
from tavernkit.silly_tavern.providers._request import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._text.backends import provider_choice

TEXT_PATH = "/completions"
KEEPS_CHAT_PATH = ("openrouter",)
"""Sources that also get texts on the path of chats."""

BASE_FIELDS = (
    "model", "temperature", "max_tokens", "max_completion_tokens", "stream", "presence_penalty", "frequency_penalty",
    "top_p", "top_k", "logit_bias", "seed", "n",
)  # fmt: skip
"""Fields of the page's body that every source here gets."""

EFFORT_SOURCES = ("openai", "custom")
"""Sources whose ``reasoning_effort`` and ``verbosity`` depend on the model."""
OWN_EFFORTS = "koboldcpp/"
"""Prefixes of models that support every effort (custom source)."""

MAX_RANDOM_SEED = 99999999
NANOGPT_EFFORTS: Mapping[str, str] = {"min": "none", "low": "minimal", "medium": "low", "high": "medium", "max": "high"}
_NANOGPT_CLAUDE = re.compile(r"(?:^|/)claude[-_]")


@dataclass(slots=True)
class Draft:
    """A source's additions to the shared request: changed messages, fields, headers."""

    messages: Messages
    extra: JsonObject = field(default_factory=dict[str, Json])
    headers: dict[str, str] = field(default_factory=dict[str, str])


def is_text_model(given: PageBody) -> bool:
    """Return True if the model continues a text instead of answering messages."""
    return given.prompt is not None or given.model in TEXT_MODELS


def shared_request(given: PageBody) -> Made:
    """Make the request of one of ``ADDITIONS``."""
    text = is_text_model(given)
    draft = Draft([*given.messages])
    ADDITIONS[given.source](given, draft)
    extra = draft.extra
    if given.source in EFFORT_SOURCES:
        extra |= _effort_and_verbosity(given)
    if given.stops:
        extra["stop"] = given.stops
    if not text:
        extra |= given.offered_tools()
    if given.json_schema is not None:
        extra.setdefault("response_format", named_schema(given.json_schema))
    body = given.pick(BASE_FIELDS)
    if text:
        body["prompt"] = given.prompt if given.prompt is not None else to_text_prompt([*draft.messages])
    else:
        # Chats get even an empty list of stop strings.
        body |= {"messages": [*draft.messages], **given.pick(("stop",))}
    body |= extra
    if given.source == "custom":
        for key in yaml_keys(given.text("custom_exclude_body"), given.warn):
            body.pop(key, None)
    path = TEXT_PATH if text and given.source not in KEEPS_CHAT_PATH else None
    return Made(body, draft.headers, path)


def _effort_and_verbosity(given: PageBody) -> JsonObject:
    fields: JsonObject = {}
    if given.effort:
        as_given = given.source == "custom" and given.model.startswith(OWN_EFFORTS)
        effort = given.effort if as_given else openai_effort(given.model, given.effort)
        if effort is not None:
            fields["reasoning_effort"] = effort
    if given.is_set("verbosity") and given.model.startswith(VERBOSITY_MODELS):
        fields["verbosity"] = given.body["verbosity"]
    return fields


def _openai(given: PageBody, draft: Draft) -> None:
    draft.messages = embed_media(draft.messages)
    # Old models take the number itself.
    draft.extra |= given.pick(("logprobs",))
    if not is_text_model(given):
        draft.extra |= given.token_probabilities()
    if given.source == "openai" and given.config.openai_randomize_user_id:
        draft.extra["user"] = str(uuid.UUID(int=given.random.getrandbits(128), version=4))


def _custom(given: PageBody, draft: Draft) -> None:
    _openai(given, draft)
    # The user's fields win over the page's, but lose against stop strings, tools and the effort, which come later.
    draft.extra |= yaml_object(given.text("custom_include_body"), given.warn)
    # A header is text, so Infinity can be sent; in the body it would become null.
    headers = yaml_object(given.text("custom_include_headers"), given.warn, keep_infinity=True)
    draft.headers |= {name.lower(): to_string(value) for name, value in headers.items()}
    _set_format(given, draft, named_schema)


def _openrouter(given: PageBody, draft: Draft) -> None:
    extra = draft.extra
    middle_out = {"on": ["middle-out"], "off": []}.get(given.text("middleout"))
    if middle_out is not None:
        extra["transforms"] = [*middle_out]
    extra["plugins"] = [{"id": "web"}] if given.is_set("enable_web_search") else []  # sent even if it is empty
    reasoning: JsonObject = {"exclude": not given.is_set("include_reasoning")}
    if given.is_set("reasoning_effort"):
        reasoning["effort"] = given.body["reasoning_effort"]
    extra["reasoning"] = reasoning
    extra |= given.token_probabilities() | given.pick(("min_p", "top_a", "repetition_penalty"))
    if provider := provider_choice(given.body):
        extra["provider"] = provider
    if given.is_set("use_fallback"):
        extra["route"] = "fallback"
    if given.is_set("verbosity"):
        extra["verbosity"] = given.body["verbosity"]
    _set_format(given, draft, named_schema)
    draft.messages = add_signatures(embed_media(draft.messages), given.model, given.config)
    if given.model.startswith("anthropic/claude"):
        draft.messages = cache_claude(given, draft.messages)
    if "google/gemini" in given.model:
        extra["safety_settings"] = safety_settings("makersuite")
        if given.config.gemini_enable_system_prompt_cache and given.model in given.connection.cached_models:
            draft.messages = cache_system_prompt(draft.messages)


def cache_claude(given: PageBody, messages: Messages) -> Messages:
    """Put cache marks on messages for a Claude model at another provider, if configured."""
    config = given.config
    if config.claude_enable_system_prompt_cache:
        messages = cache_system_prompt(messages, config.cache_ttl)
    if config.claude_caching_at_depth >= 0:
        messages = cache_at_depth(messages, config.claude_caching_at_depth, config.cache_ttl)
    return messages


def _perplexity(given: PageBody, draft: Draft) -> None:
    if given.prompt is None:
        draft.messages = post_process(draft.messages, "strict", given.names, given.config)
    draft.extra |= given.pick(("reasoning_effort",))
    _set_format(given, draft, bare_schema)


def _groq(given: PageBody, draft: Draft) -> None:
    _set_format(given, draft, described_schema)


def _fireworks(given: PageBody, draft: Draft) -> None:
    if given.is_set("reasoning_effort"):
        draft.extra["reasoning_effort"] = given.body["reasoning_effort"]
    _set_format(given, draft, described_schema)


def _nanogpt(given: PageBody, draft: Draft) -> None:
    extra = draft.extra
    if given.is_set("nanogpt_provider"):
        draft.headers["x-provider"] = to_string(given.body["nanogpt_provider"])
    if given.is_set("nanogpt_payg_override"):
        draft.headers["x-billing-mode"] = "paygo"
        extra["billing_mode"] = "paygo"
    if given.is_set("enable_web_search") and not given.model.endswith(":online"):
        extra["model"] = f"{given.model}:online"
    extra |= given.pick(("min_p", "top_a", "repetition_penalty"))
    if given.is_set("reasoning_effort"):
        effort = NANOGPT_EFFORTS.get(given.effort)  # any other effort, such as "auto", becomes an empty object
        extra["reasoning"] = {} if effort is None else {"effort": effort}
    if given.config.claude_enable_system_prompt_cache and _NANOGPT_CLAUDE.search(given.model):
        extra["cache_control"] = {"enabled": True, "ttl": given.config.cache_ttl}
    _set_format(given, draft, named_schema)


def _pollinations(given: PageBody, draft: Draft) -> None:
    if given.body.get("seed") is None:
        draft.extra["seed"] = given.random.randrange(MAX_RANDOM_SEED)
    if given.text("pollinations_endpoint") == "anonymous":
        return  # without an effort, and with the usual form of a schema
    draft.extra |= given.pick(("reasoning_effort",))
    _set_format(given, draft, bare_schema)


def _moonshot(given: PageBody, draft: Draft) -> None:
    draft.extra["thinking"] = thinking_switch(given)
    if given.json_schema is not None:
        _ask(given, draft)
    else:
        # Unlike DeepSeek's, the message is marked even if tools are offered.
        draft.messages = add_assistant_prefix(draft.messages, None, "partial")


def _zai(given: PageBody, draft: Draft) -> None:
    draft.extra["thinking"] = thinking_switch(given)
    _ask(given, draft)


def _workers_ai(given: PageBody, draft: Draft) -> None:
    draft.extra |= given.pick(("repetition_penalty",))
    # Cloudflare gets the schema itself where the others have a name and the schema.
    _set_format(given, draft, lambda schema: {"type": "json_schema", **present(schema, json_schema="value")})


def thinking_switch(given: PageBody) -> JsonObject:
    """Return the field ``thinking``: on if the page wants to show thoughts."""
    return {"type": "enabled" if given.is_set("include_reasoning") else "disabled"}


def _ask(given: PageBody, draft: Draft) -> None:
    if given.json_schema is not None:
        draft.extra["response_format"] = {**JSON_OBJECT}
        draft.messages = ask_for_schema(draft.messages, given.json_schema)


def _set_format(given: PageBody, draft: Draft, shape: Callable[[JsonObject], JsonObject]) -> None:
    if given.json_schema is not None:
        draft.extra["response_format"] = shape(given.json_schema)


ADDITIONS: Mapping[str, Callable[[PageBody, Draft], None]] = {
    "openai": _openai,
    "custom": _custom,
    "openrouter": _openrouter,
    "perplexity": _perplexity,
    "groq": _groq,
    "fireworks": _fireworks,
    "nanogpt": _nanogpt,
    "pollinations": _pollinations,
    "moonshot": _moonshot,
    "zai": _zai,
    "siliconflow": _ask,
    "workers_ai": _workers_ai,
}
"""What each source adds."""


_SIGNATURE_FORMATS = (
    ("google/gemini", "google-gemini-v1"),
    ("anthropic/claude", "anthropic-claude-v1"),
    ("openai/gpt", "openai-responses-v1"),
    ("x-ai/grok", "xai-responses-v1"),
)


def embed_media(messages: Sequence[JsonObject]) -> Messages:
    """Convert audio in data URLs to ``input_audio`` parts."""
    turns = copied(messages)
    for turn in turns:
        content = turn.get("content")
        if is_list(content):
            turn["content"] = [_audio_part(part) for part in content]
    return turns


def _audio_part(part: Json) -> Json:
    if not is_object(part) or part.get("type") != "audio_url":
        return part
    found = part_data(part, "audio_url")
    if found is None:
        return part
    media_type, data = found
    sound_format = "wav" if media_type == "audio/wav" else "mp3"
    return {"type": "input_audio", "input_audio": {"format": sound_format, "data": data}}


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
    del owner["signature"]  # even if it is not passed on
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


def add_assistant_prefix(messages: Sequence[JsonObject], tools: Json, key: str) -> Messages:
    """Mark a trailing assistant message for continuation, unless tools are used."""
    turns = copied(messages)
    tools_in_play = (is_list(tools) and bool(tools)) or any(turn.get("role") == "tool" for turn in turns)
    if turns and not tools_in_play and turns[-1].get("role") == "assistant":
        turns[-1][key] = True
    return turns
