"""OpenAI's chat completions, every API with the same shape, and formats that keep nothing but texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_list, is_object, is_sequence, thaw
from tavernkit.dialects._attachments import Attachment, attachments_of
from tavernkit.dialects._messages import metadata_value, warn_about_loss
from tavernkit.dialects._shapes import openai_part
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._block import Message

_WITHOUT_MEDIA = frozenset({"system", "developer", "assistant", "tool", "function"})


def to_openai(
    messages: Sequence[Message], *, attachments: bool = False, warn: Warn = log_warning, **_: object
) -> list[JsonObject]:
    """Return a list of ``{"role", "content", …}``; nothing is merged, reordered or validated.

    With ``attachments=True`` the content of a user message with attachments is a list of parts, and so is that
    of any message with the metadata ``cache_control``, a cache mark. OpenRouter's ``reasoning_details`` go back to it.
    """
    if not attachments:
        warn_about_loss(messages, "openai", warn, tools=False, attachments=True)
    return [_entry(message, position, attachments, warn) for position, message in enumerate(messages)]


def _entry(message: Message, position: int, attachments: bool, warn: Warn) -> JsonObject:
    entry: JsonObject = {"role": message.role, "content": message.content}
    if attachments and message.attachments:
        entry["content"] = _content(message, position, warn)
    if message.name:
        entry["name"] = message.name
    if message.metadata:
        for key in ("tool_calls", "tool_call_id", "signature"):
            value = metadata_value(message, key)
            # Only results of tools may name a call: APIs refuse the id elsewhere.
            if value is not None and (key != "tool_call_id" or message.role == "tool"):
                entry[key] = thaw(value)
        if attachments and (mark := metadata_value(message, "cache_control")) is not None:
            _mark(entry, thaw(mark))
        if attachments and (details := metadata_value(message, "reasoning_details")) is not None:
            entry["reasoning_details"] = thaw(details)
    return entry


def _mark(entry: JsonObject, mark: Json) -> None:
    """Put a cache mark on the last part of a message, as OpenRouter expects it for Anthropic's models."""
    content = entry["content"]
    parts: list[Json] = content if is_list(content) else [{"type": "text", "text": content}] if content else []
    if parts and is_object(last := parts[-1]):
        parts[-1] = {**last, "cache_control": mark}
        entry["content"] = parts


def _content(message: Message, position: int, warn: Warn) -> Json:
    if message.role in _WITHOUT_MEDIA:
        warn(f"attachments of message {position} were left out: OpenAI takes none from role {message.role!r}")
        return message.content
    media: list[Json] = []
    for attachment in attachments_of(message, position, warn):
        part = _part(attachment)
        if part is None:
            warn(f"{attachment.kind} attachment of message {position} was left out: OpenAI cannot take it in this form")
        else:
            media.append(part)
    text: list[Json] = [openai_part("text", message.content)] if message.content else []
    return [*text, *media] if media else message.content


def _part(attachment: Attachment) -> JsonObject | None:
    if attachment.file_id is not None:
        return openai_part("file", {"file_id": attachment.file_id})
    match attachment.kind:
        case "image":
            image: JsonObject = {"url": attachment.data_url}
            if attachment.detail:
                image["detail"] = attachment.detail
            return openai_part("image_url", image)
        case "video":
            return openai_part("video_url", {"url": attachment.data_url})
        case "audio" if attachment.data is not None:
            subtype = attachment.mime_type.rpartition("/")[2].removeprefix("x-")
            audio_format = {"mpeg": "mp3", "wave": "wav"}.get(subtype, subtype)
            return openai_part("input_audio", {"data": attachment.data, "format": audio_format})
        case "file" if attachment.data is not None:
            return openai_part("file", {"filename": attachment.name or "file", "file_data": attachment.data_url})
        case _:
            return None


def to_text(
    messages: Sequence[Message], *, stop_sequences: object = None, warn: Warn = log_warning, **_: object
) -> JsonObject:
    """Return ``{"prompt", "stop_sequences"}``: non-empty contents, one per line."""
    warn_about_loss(messages, "text", warn, tools=True, attachments=True)
    stops = stop_sequences if is_sequence(stop_sequences) else (stop_sequences,)
    listed: list[Json] = [_text(stop) for stop in stops if stop is not None]
    return {
        "prompt": join("\n", [message.content for message in messages if message.content]),
        "stop_sequences": listed,
    }


def _text(stop: object) -> str:
    return str(stop).lower() if isinstance(stop, bool) else str(stop)


def role_and_content(dialect: str) -> Callable[..., list[JsonObject]]:
    """Make a dialect that returns a list of ``{"role", "content"}`` and warns about other data: AI21, Mistral, xAI.

    For tools, use the ``openai`` dialect, which these providers also accept.
    """

    def convert(messages: Sequence[Message], *, warn: Warn = log_warning, **_: object) -> list[JsonObject]:
        warn_about_loss(messages, dialect, warn, tools=True, attachments=True)
        return [{"role": message.role, "content": message.content} for message in messages]

    return convert
