"""Lines of SillyTavern's chats: what a turn makes of them."""

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
"""A key that only neutral messages have: tool calls and their results, and what a client brings along."""

_NUMBER = "tavernkit_line"
"""Where a line of a chat has, during a turn, the number of the stored line it came from."""


def to_message(line: ChatLine) -> st.ChatMessage | JsonObject:
    """A line as a builder takes it."""
    return dict(line.native) if NEUTRAL in line.native else st.ChatMessage.from_json(line.native)


def user_line(
    text: str, *, user_name: str, extra: JsonObject | None = None, name: str = "", avatar: str | None = None
) -> ChatLine:
    """A line of the user, as it is typed; ``name`` says that it is somebody else's, as another persona's is."""
    if name and name != user_name:
        avatar = f"{name}.png"
    avatar = PERSONA_AVATAR.format(avatar) if avatar is not None else None
    # What a turn makes of it: mostly the line need not be stored again at its end.
    extra = {"isSmallSys": False, "reasoning": "", **(extra or {})}
    message = st.ChatMessage(
        name=name or user_name, mes=text, is_user=True, send_date=now(), extra=extra, force_avatar=avatar
    )
    return new_line("user", text, message.to_json())


def neutral_line(role: str, content: str, metadata: JsonObject) -> ChatLine:
    """A line that calls tools, or answers a call."""
    return new_line(role, content, {"role": role, "content": content, "metadata": metadata})


def is_about_tools(line: ChatLine) -> bool:
    """True if a line calls tools or answers a call."""
    metadata = line.native.get("metadata")
    return line.role == "tool" or (is_object(metadata) and bool(metadata.get("tool_calls")))


def has_media(line: ChatLine) -> bool:
    """True if a line comes with pictures."""
    extra = line.native.get("extra")
    return is_mapping(extra) and bool(extra.get("media"))


def is_named(line: ChatLine, avatar: str | None) -> bool:
    """Return True if a line says that another user speaks than the one with this avatar."""
    named = line.native.get("force_avatar")
    return bool(named) and (avatar is None or named != PERSONA_AVATAR.format(avatar))


def last_reply(lines: Sequence[ChatLine], kind: str) -> ChatLine:
    """The reply that is swiped or gone on with."""
    last = lines[-1] if lines else None
    if last is None or last.role != "assistant" or NEUTRAL in last.native:
        raise ServiceError(409, f"there is no reply to {kind}", code="no_reply")
    return last


def calling_line(reply: Reply, text: str) -> ChatLine:
    """A reply that calls tools, which the client runs; ``text`` is what is beside the calls."""
    calls: list[Json] = [call.to_dict() for call in reply.tool_calls]
    native: JsonObject = {"role": "assistant", "content": text, "metadata": {"tool_calls": calls}}
    return new_line("assistant", text, native, status=PARTIAL if reply.interrupted else COMPLETE)


def partial_reply(text: str, speaker: str, *, avatar: str | None, reason: str) -> ChatLine:
    """A reply that broke off, as far as it is known.

    Args:
        text: What there is of it.
        speaker: Who spoke.
        avatar: The speaker's id, in a group.
        reason: Why it broke off.
    """
    extra: JsonObject = {"tavernkit": {"partial": reason}}
    message = st.ChatMessage(name=speaker, mes=text, send_date=now(), extra=extra, original_avatar=avatar)
    return new_line("assistant", text, message.to_json(), status=PARTIAL)


def unchanged(lines: Sequence[ChatLine], *, in_group: bool) -> int:
    """How many lines of a chat, from the first on, a turn does not change: none of a short one, or after tools.

    Args:
        lines: The lines.
        in_group: The chat is a group's: its last round may have many.
    """
    step = CHANGEABLE_GROUP_LINES if in_group else CHANGEABLE_LINES
    cut = max(len(lines) - step, 0)
    if not cut or "{{" in lines[0].content:  # the first message is expanded for good by the next turn
        return 0
    return 0 if any(NEUTRAL in line.native for line in lines[: cut + 1] if not line.is_converted) else cut


def earlier_messages(lines: Sequence[ChatLine]) -> list[st.ChatMessage]:
    """The messages of lines that are not neutral."""
    return [line.converted(st.ChatMessage.from_json) for line in lines]


class StoredLines:
    """Stored lines as lines of a chat, and back again once a turn has changed them.

    Lines of the chat carry the number of the stored line they came from. Neutral messages about tools become lines as
    SillyTavern has them; they stay stored as they were.
    """

    def __init__(self, stored: Sequence[ChatLine], cut: int = 0) -> None:
        """Make lines of a chat.

        Args:
            stored: The stored lines.
            cut: How many of them, from the first, stay as they are: they are none of the chat's lines.
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
            if len(log.lines) == before:  # the result of a call: the line of the call has it now
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
        """The lines to store.

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
    """What is stored of the user's words, with what came with them (sounds, files)."""
    before, extra = sent.native.get("extra"), line.get("extra")
    both = {**(before if is_object(before) else {}), **(extra if is_object(extra) else {})}
    return {**sent.native, **line, "send_date": sent.native.get("send_date"), "extra": both}


def added_keys(line: ChatLine) -> dict[str, Json]:
    """The keys of a user's line that ``tavernkit.silly_tavern.Chat.add_message()`` keeps."""
    return {key: line.native[key] for key in ("name", "extra", "force_avatar") if key in line.native}


def now() -> str:
    """The time as chat files have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
