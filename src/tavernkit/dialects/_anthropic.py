"""Anthropic's messages API."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, thaw
from tavernkit.dialects._attachments import Attachment, attachments_of
from tavernkit.dialects._messages import (
    failed,
    metadata_value,
    settle_tool_results,
    tool_call_id,
    tool_calls,
    warn_about_loss,
)
from tavernkit.dialects._shapes import (
    DEFAULT_PLACEHOLDER,
    anthropic_base64,
    anthropic_block,
    anthropic_tool_choice,
    anthropic_tools,
    merge_neighbours,
)
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._block import Message


def to_anthropic(
    messages: Sequence[Message],
    *,
    strict_alternation: bool = False,
    attachments: bool | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
    tool_choice: object = None,
    parallel_tool_calls: bool | None = None,
    placeholder: str = DEFAULT_PLACEHOLDER,
    warn: Warn = log_warning,
    **_: object,
) -> JsonObject:
    """Return ``{"system", "messages"}``, and ``tools`` and ``tool_choice`` (from OpenAI's shape) if given.

    System messages are collected wherever they are. With ``strict_alternation=True`` the payload is valid for the API:
    turns alternate and begin with the user, tool results follow their calls and say if they failed, blank
    text is left out, attachments and the metadata ``cache_control``, ``thinking`` and ``signature`` become blocks.
    """
    media = strict_alternation if attachments is None else attachments
    if not media:
        warn_about_loss(messages, "anthropic", warn, tools=False, attachments=True)
    writer = _Writer(rich=strict_alternation, media=media, warn=warn)
    chat = [message for message in messages if message.role != "system"]
    if strict_alternation:
        chat = settle_tool_results(chat, warn)
    turns = [turn for turn in (writer.turn(message, i) for i, message in enumerate(chat)) if turn["content"]]
    payload: JsonObject = {
        "system": writer.system([message for message in messages if message.role == "system"]),
        "messages": list(_alternate(turns, placeholder) if strict_alternation else turns),
    }
    if tools:
        payload["tools"] = anthropic_tools(tools)
        choice = anthropic_tool_choice(tool_choice, parallel_tool_calls=parallel_tool_calls)
        if choice is not None:
            payload["tool_choice"] = choice
    return payload


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes one message at a time; ``rich`` includes what only the strict form has."""

    rich: bool
    media: bool
    warn: Warn

    def system(self, messages: Sequence[Message]) -> Json:
        spoken = [message for message in messages if message.content]
        if self.rich and any(metadata_value(message, "cache_control") for message in spoken):
            return [
                block for message in spoken for block in self._with_cache_control(message, [_text(message.content)])
            ]
        return join("\n\n", [message.content for message in spoken])

    def turn(self, message: Message, position: int) -> JsonObject:
        match message.role:
            case "assistant":
                blocks = self._assistant(message, position)
            case "tool":
                blocks = self._tool_result(message, position)
            case _:
                blocks = self._spoken(message, position)
        role = "assistant" if message.role == "assistant" else "user"
        return {"role": role, "content": self._with_cache_control(message, blocks)}

    def _assistant(self, message: Message, position: int) -> list[Json]:
        if self.media and message.attachments:
            self.warn(f"attachments of message {position} were left out: Anthropic takes none from the assistant")
        blocks: list[Json] = list(_thinking(message)) if self.rich else []
        if message.content.strip() if self.rich else message.content:
            blocks.append(_text(message.content))
        return blocks + [
            anthropic_block("tool_use", id=call.id, name=call.name, input=call.arguments)
            for call in tool_calls(message, self.warn)
        ]

    def _spoken(self, message: Message, position: int) -> list[Json]:
        blocks: list[Json] = self._media(message, position)
        if message.content.strip() or not self.rich:
            blocks.append(_text(message.content))
        return blocks

    def _tool_result(self, message: Message, position: int) -> list[Json]:
        media = self._media(message, position)
        content: Json = [*media, _text(message.content)] if media else message.content
        result = anthropic_block("tool_result", tool_use_id=tool_call_id(message), content=content)
        if self.rich and failed(message.content):
            result["is_error"] = True
        return [result]

    def _media(self, message: Message, position: int) -> list[Json]:
        blocks: list[Json] = []
        if not self.media or not message.attachments:
            return blocks
        for attachment in attachments_of(message, position, self.warn):
            block = _media_block(attachment)
            if block is None:
                self.warn(f"{attachment.kind} attachment of message {position} was left out: Anthropic takes none")
            else:
                blocks.append(block)
        return blocks

    def _with_cache_control(self, message: Message, blocks: list[Json]) -> list[Json]:
        hint = metadata_value(message, "cache_control") if self.rich else None
        if hint is not None and blocks and is_object(last := blocks[-1]):
            last["cache_control"] = thaw(hint)
        return blocks


def _text(text: str) -> JsonObject:
    return anthropic_block("text", text=text)


def _thinking(message: Message) -> list[JsonObject]:
    """Thinking must be sent back unchanged and signed: as its text, or as a list of Anthropic's own blocks."""
    thinking = metadata_value(message, "thinking")
    if is_sequence(thinking):
        blocks = (thaw(block) for block in thinking if is_mapping(block))
        return [block for block in blocks if is_object(block)]
    signature = metadata_value(message, "signature")
    if isinstance(thinking, str) and thinking and isinstance(signature, str) and signature:
        return [anthropic_block("thinking", thinking=thinking, signature=signature)]
    return []


def _media_block(attachment: Attachment) -> JsonObject | None:
    if attachment.kind not in ("image", "file"):
        return None
    source: JsonObject
    if attachment.file_id is not None:
        source = {"type": "file", "file_id": attachment.file_id}
    elif attachment.url is not None:
        source = {"type": "url", "url": attachment.url}
    elif attachment.mime_type == "text/plain":
        text = base64.b64decode(attachment.data or "").decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        source = anthropic_base64(attachment.mime_type, attachment.data)
    if attachment.kind == "image":
        return anthropic_block("image", source=source)
    block = anthropic_block("document", source=source)
    if attachment.name:
        block["title"] = attachment.name
    return block


def _alternate(turns: Sequence[JsonObject], placeholder: str) -> list[JsonObject]:
    merged = merge_neighbours(turns, "content")
    for turn in merged:
        if turn["role"] == "user" and is_list(blocks := turn["content"]):
            blocks.sort(key=_results_first)
    _trim_last(merged)
    if not merged or merged[0]["role"] != "user":
        merged.insert(0, {"role": "user", "content": [_text(placeholder)]})
    return merged


def _results_first(block: Json) -> bool:
    return not (is_object(block) and block.get("type") == "tool_result")


def _trim_last(turns: list[JsonObject]) -> None:
    """The API refuses trailing white space in a prefilled reply."""
    if not turns or turns[-1]["role"] != "assistant" or not is_list(blocks := turns[-1]["content"]):
        return
    last = blocks[-1]
    if is_object(last) and last.get("type") == "text":
        last["text"] = str(last["text"]).rstrip()
