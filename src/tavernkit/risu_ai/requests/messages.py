"""The messages of a request: roles rewritten for the model, in the form OpenAI and Mistral want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tavernkit.dialects.openai import convert
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt.message import Message
from tavernkit.risu_ai.cbs.escapes import unescape
from tavernkit.risu_ai.cbs.models import model_info
from tavernkit.risu_ai.chat.prompt_message import NEW_CHAT_MEMO, PromptMessage
from tavernkit.risu_ai.files.preset import Preset
from tavernkit.risu_ai.files.settings import Settings
from tavernkit.risu_ai.requests.model_flags import DEVELOPER_ROLE, PREFIX_FIELD, THINKING_FIELD
from tavernkit.risu_ai.requests.reformat import DEFAULT_SYSTEM_CONTENT, DEFAULT_SYSTEM_ROLE, reformat
from tavernkit.values import JsonObject, thaw

MISTRAL_FORMAT = 4
REVERSE_PROXY = "reverse_proxy"
_EXAMPLE_PREFIX = "example_"
_MEDIA = "attachments"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """How messages are written for one model under one user's settings."""

    model: str = ""
    flags: frozenset[str] = field(default_factory=frozenset[str])
    mistral: bool = False
    system_content: str = DEFAULT_SYSTEM_CONTENT
    system_role: str = DEFAULT_SYSTEM_ROLE
    new_openai_handle: bool = True
    ooba_mode: bool = False

    @classmethod
    def of(cls, preset: Preset, settings: Settings, model: str | None = None) -> RequestRules:
        """The rules of a preset's model, or of another one in its place."""
        model = preset.ai_model if model is None else model
        customs = settings.for_texts(preset).custom_models
        return cls(
            model=model,
            flags=settings.flags_of(model),
            mistral=model_info(model, customs).format == MISTRAL_FORMAT,
            system_content=preset.system_content_replacement,
            system_role=preset.system_role_replacement,
            new_openai_handle=settings.new_openai_handle,
            ooba_mode=settings.reverse_proxy_ooba_mode and model == REVERSE_PROXY,
        )


def unescaped(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Copies of the messages with escaped characters turned back; done once, before request triggers."""
    found = [message.copy() for message in messages]
    for message in found:
        message.content = unescape(message.content)
    return found


def request_messages(
    messages: Sequence[PromptMessage], rules: RequestRules, *, warn: Warn = log_warning, strict: bool = False
) -> list[JsonObject]:
    """Write the messages of an OpenAI-style request."""
    rewritten = reformat(
        messages,
        rules.flags,
        system_content=rules.system_content,
        system_role=rules.system_role,
        warn=warn,
        strict=strict,
    )
    body = [_body_message(message, rules) for message in rewritten]
    if rewritten and rewritten[-1].role == "assistant":
        if PREFIX_FIELD in rules.flags:
            body[-1]["prefix"] = True
        if THINKING_FIELD in rules.flags and rewritten[-1].thoughts:
            body[-1]["reasoning_content"] = "\n".join(rewritten[-1].thoughts)
    if rules.ooba_mode:
        body = _system_last(body)
    if rules.new_openai_handle:
        body = [message for message in body if message["content"] or message.get(_MEDIA)]
    if DEVELOPER_ROLE in rules.flags:
        for message in body:
            if message["role"] == "system":
                message["role"] = "developer"
    return [_with_media(message, warn) for message in (_mistral(body) if rules.mistral else body)]


def _body_message(message: PromptMessage, rules: RequestRules) -> JsonObject:
    content = message.content
    if rules.new_openai_handle and (message.memo or "").startswith(NEW_CHAT_MEMO):
        content = ""
    written: JsonObject = {"role": message.role, "content": content}
    if message.multimodals:
        written[_MEDIA] = [thaw(part) for part in message.multimodals]
    if rules.new_openai_handle and message.name is not None and message.name.startswith(_EXAMPLE_PREFIX):
        written["name"] = message.name
    return written


def _with_media(message: JsonObject, warn: Warn) -> JsonObject:
    """Write the content in parts if there is more than text."""
    media = message.pop(_MEDIA, None)
    if not isinstance(media, list):
        return message
    said = Message(role=str(message["role"]), content=str(message["content"]), attachments=media)
    (written,) = convert([said], attachments=True, warn=warn)
    return {**message, "content": written["content"]}


def _system_last(body: Sequence[JsonObject]) -> list[JsonObject]:
    """All that the system says in one message at the end (a blanked start line leaves an empty line in it)."""
    system = "\n".join(str(message["content"]) for message in body if message["role"] == "system")
    others = [message for message in body if message["role"] != "system"]
    return [*others, {"role": "system", "content": system}]


def _mistral(body: Sequence[JsonObject]) -> list[JsonObject]:
    """No system message but the first, no role twice in a row."""
    found: list[JsonObject] = []
    for message in body:
        role, content = message["role"], str(message["content"])
        if not found:
            if role not in {"user", "system"}:
                role, content = "system", f"{role}:{content}"
            found.append({**message, "role": role, "content": content})
            continue
        last = found[-1]
        if role == "system" and last["role"] != "system":
            role, content = "user", f"System:{content}"
        if last["role"] == role:
            last["content"] = f"{last['content']}\n{content}"
        else:
            found.append({**message, "role": "user" if role == "function" else role, "content": content})
    return found
