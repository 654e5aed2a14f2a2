"""Lines of SillyTavern's chats, before and after a turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime

from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject, is_mapping, is_object, thaw_object
from tavernkit.models import Reply
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import CHANGEABLE_GROUP_LINES, CHANGEABLE_LINES
from tavernkit.server.storage.chats import COMPLETE, PARTIAL, ChatLine, new_line
from tavernkit.silly_tavern._chat.chat_log import ChatLog
from tavernkit.silly_tavern._conversation.lines import PERSONA_AVATAR

NEUTRAL = "role"
"""A key that only neutral messages have: tool calls, tool results, and a client's own data."""

_NUMBER = "tavernkit_line"
"""The key of the stored line's number in a chat line, during a turn."""


def to_message(line: ChatLine) -> st.ChatMessage | JsonObject:
    """Return a line as a message for builders."""
    return dict(line.native) if NEUTRAL in line.native else st.ChatMessage.from_json(line.native)


def user_line(
    text: str, *, user_name: str, extra: JsonObject | None = None, name: str = "", avatar: str | None = None
) -> ChatLine:
    """Return a line of the user, as typed; ``name`` means that it is from another user, like another persona."""
    if name and name != user_name:
        avatar = f"{name}.png"
    avatar = PERSONA_AVATAR.format(avatar) if avatar is not None else None
    # As a turn would write it, so that the line usually need not be stored again.
    extra = {"isSmallSys": False, "reasoning": "", **(extra or {})}
    message = st.ChatMessage(
        name=name or user_name, mes=text, is_user=True, send_date=now(), extra=extra, force_avatar=avatar
    )
    return new_line("user", text, message.to_json())


def neutral_line(role: str, content: str, metadata: JsonObject) -> ChatLine:
    """Return a line with tool calls or a tool result."""
    return new_line(role, content, {"role": role, "content": content, "metadata": metadata})


def is_about_tools(line: ChatLine) -> bool:
    """Return True if a line has tool calls or a tool result."""
    metadata = line.native.get("metadata")
    return line.role == "tool" or (is_object(metadata) and bool(metadata.get("tool_calls")))


def has_media(line: ChatLine) -> bool:
    """Return True if a line has pictures."""
    extra = line.native.get("extra")
    return is_mapping(extra) and bool(extra.get("media"))


def is_named(line: ChatLine, avatar: str | None) -> bool:
    """Return True if a line says that another user speaks than the one with this avatar."""
    named = line.native.get("force_avatar")
    return bool(named) and (avatar is None or named != PERSONA_AVATAR.format(avatar))


def last_reply(lines: Sequence[ChatLine], kind: str) -> ChatLine:
    """Return the reply that is swiped or continued."""
    last = lines[-1] if lines else None
    if last is None or last.role != "assistant" or NEUTRAL in last.native:
        raise ServiceError(409, f"there is no reply to {kind}", code="no_reply")
    return last


def calling_line(reply: Reply, text: str) -> ChatLine:
    """Return a reply with tool calls, which the client runs; ``text`` is the text with the calls."""
    calls: list[Json] = [call.to_dict() for call in reply.tool_calls]
    native: JsonObject = {"role": "assistant", "content": text, "metadata": {"tool_calls": calls}}
    return new_line("assistant", text, native, status=PARTIAL if reply.interrupted else COMPLETE)


def partial_reply(text: str, speaker: str, *, avatar: str | None, reason: str) -> ChatLine:
    """Return the line of a partial reply.

    Args:
        text: The text so far.
        speaker: Who spoke.
        avatar: The speaker's id, in a group.
        reason: Why it broke off.
    """
    extra: JsonObject = {"tavernkit": {"partial": reason}}
    message = st.ChatMessage(name=speaker, mes=text, send_date=now(), extra=extra, original_avatar=avatar)
    return new_line("assistant", text, message.to_json(), status=PARTIAL)


def unchanged(lines: Sequence[ChatLine], *, in_group: bool) -> int:
    """Return how many leading lines a turn does not change: none in short chats or after tool calls.

    Args:
        lines: The lines.
        in_group: True for groups, whose last round may have many lines.
    """
    step = CHANGEABLE_GROUP_LINES if in_group else CHANGEABLE_LINES
    cut = max(len(lines) - step, 0)
    if not cut or "{{" in lines[0].content:  # the next turn permanently expands the first message
        return 0
    return 0 if any(NEUTRAL in line.native for line in lines[: cut + 1] if not line.is_converted) else cut


def earlier_messages(lines: Sequence[ChatLine]) -> list[st.ChatMessage]:
    """Return the messages of lines that are not neutral."""
    return [line.converted(st.ChatMessage.from_json) for line in lines]


class StoredLines:
    """Converts stored lines to lines of a chat, and back after a turn.

    Lines of the chat have the number of their stored line. Neutral messages about tools become SillyTavern lines, but
    stay stored as they were.
    """

    def __init__(self, stored: Sequence[ChatLine], cut: int = 0) -> None:
        """Convert stored lines.

        Args:
            stored: The stored lines.
            cut: How many leading lines are not converted.
        """
        self._before = stored[:cut]
        self.copies: list[JsonObject] = []
        """The lines as they are stored, if they are none but messages."""
        self.messages: list[st.ChatMessage] = []
        """What is made of these."""
        if not any(NEUTRAL in line.native for line in stored[cut:]):
            self._sources = [[line] for line in stored[cut:]]
            self.copies = [{**line.native, _NUMBER: number} for number, line in enumerate(stored[cut:])]
            self.messages = earlier_messages(stored[cut:])
            self.lines = [thaw_object(line) for line in self.copies]
            return
        self._sources: list[list[ChatLine]] = []
        log, numbers = ChatLog(), list[int]()
        unchanged: dict[int, tuple[st.ChatMessage, JsonObject]] = {}
        for line in stored[cut:]:
            before = len(log.lines)
            message = to_message(line)
            log.append(message)
            if isinstance(message, st.ChatMessage):
                unchanged[id(message)] = message, line.native
            if len(log.lines) == before:  # the result of a call, which is now in the line of the call
                self._sources[-1].append(line)
                continue
            numbers += [len(self._sources)] * (len(log.lines) - before)
            self._sources.append([line])
        self.lines: list[JsonObject] = [
            {**(unchanged[id(message)][1] if id(message) in unchanged else message.to_json()), _NUMBER: number}
            for message, number in zip(log.lines, numbers, strict=True)
        ]
        """The lines of the chat."""

    def lines_after(self, lines: Sequence[JsonObject], sent: ChatLine | None) -> list[ChatLine]:
        """Return the lines to store.

        Args:
            lines: The lines of the chat after the turn.
            sent: The stored line of what the user has just sent.
        """
        found: list[ChatLine] = [*self._before]
        last: object = None
        for line in lines:
            number = line.pop(_NUMBER, None)
            if isinstance(number, int):
                if number != last:
                    found += self._changed(self._sources[number], line)
                last = number
            elif sent is not None and line.get("is_user"):
                found.append(_with_native(sent, _sent_native(sent, line)))
                sent = None
            else:
                role = "user" if line.get("is_user") else "assistant"
                found.append(_with_native(new_line(role, "", {}), line))
        return found

    def _changed(self, sources: list[ChatLine], line: JsonObject) -> list[ChatLine]:
        source = sources[0]
        if NEUTRAL in source.native or source.native == line:
            return sources
        return [_with_native(source, line)]


def _with_native(line: ChatLine, native: JsonObject) -> ChatLine:
    mes, extra = native.get("mes"), native.get("extra")
    own = extra.get("tavernkit") if is_object(extra) else None
    partial = is_object(own) and bool(own.get("partial"))
    content = mes if isinstance(mes, str) else ""
    return dataclasses.replace(line, content=content, native=native, status=PARTIAL if partial else COMPLETE)


def _sent_native(sent: ChatLine, line: JsonObject) -> JsonObject:
    """Return the stored form of the user's message, with its audio and files."""
    before, extra = sent.native.get("extra"), line.get("extra")
    both = {**(before if is_object(before) else {}), **(extra if is_object(extra) else {})}
    return {**sent.native, **line, "send_date": sent.native.get("send_date"), "extra": both}


def added_keys(line: ChatLine) -> dict[str, Json]:
    """The keys of a user's line that ``tavernkit.silly_tavern.Chat.add_message()`` keeps."""
    return {key: line.native[key] for key in ("name", "extra", "force_avatar") if key in line.native}


def now() -> str:
    """Return the time in the format of chat files."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
