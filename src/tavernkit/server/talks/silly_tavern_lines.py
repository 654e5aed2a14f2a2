"""Lines of SillyTavern's chats: what a turn makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime

from tavernkit import silly_tavern as st
from tavernkit.models import Reply
from tavernkit.server.errors import ServiceError
from tavernkit.server.storage.chats import COMPLETE, PARTIAL, ChatLine, new_line
from tavernkit.values import JsonObject, is_mapping, is_object

NEUTRAL = "role"
"""A key that only neutral messages have: tool calls and their results, and what a client brings along."""

ROUND = "gen_id"
"""What SillyTavern marks the replies of one round of a group with."""


def to_message(line: ChatLine) -> st.ChatMessage | JsonObject:
    """A line as a builder takes it."""
    return dict(line.native) if NEUTRAL in line.native else st.ChatMessage.from_json(line.native)


def user_line(text: str, *, user_name: str, extra: JsonObject | None = None, name: str = "") -> ChatLine:
    """A line of the user, as it is typed; ``name`` says that it is somebody else's, as another persona's is."""
    avatar = f"User Avatars/{name}.png" if name and name != user_name else None
    message = st.ChatMessage(
        name=name or user_name, mes=text, is_user=True, send_date=now(), extra=extra or {}, force_avatar=avatar
    )
    return new_line("user", text, message.to_json())


def neutral_line(role: str, content: str, metadata: JsonObject) -> ChatLine:
    """A line that calls tools, or answers a call."""
    return new_line(role, content, {"role": role, "content": content, "metadata": metadata})


def is_about_tools(line: ChatLine) -> bool:
    """Whether a line calls tools or answers a call."""
    metadata = line.native.get("metadata")
    return line.role == "tool" or (is_object(metadata) and bool(metadata.get("tool_calls")))


def has_media(line: ChatLine) -> bool:
    """Whether a line comes with pictures."""
    extra = line.native.get("extra")
    return is_mapping(extra) and bool(extra.get("media"))


def is_named(line: ChatLine) -> bool:
    """Whether a line says which of several users speaks."""
    return bool(line.native.get("force_avatar"))


def last_reply(lines: Sequence[ChatLine], kind: str) -> ChatLine:
    """The reply that is swiped or gone on with."""
    last = lines[-1] if lines else None
    if last is None or last.role != "assistant" or NEUTRAL in last.native:
        raise ServiceError(409, f"there is no reply to {kind}", code="no_reply")
    return last


def without_last_round(lines: Sequence[ChatLine], *, in_group: bool) -> list[ChatLine]:
    """The lines before the last reply; in a group, before all replies of its round."""
    kept = list(lines)
    if not kept or kept[-1].role != "assistant":
        return kept
    round_id = _round(kept.pop())
    while in_group and round_id is not None and kept and kept[-1].role == "assistant" and _round(kept[-1]) == round_id:
        kept.pop()
    return kept


def as_sent(line: ChatLine, chat: Sequence[st.ChatMessage]) -> ChatLine:
    """What the user wrote, with macros expanded and scripts run."""
    sent = chat[-1] if chat else None
    if sent is None or not sent.is_user or sent.mes == line.content:
        return line
    return with_text(line, sent.mes, {**line.native, **sent.to_json()})


def with_text(line: ChatLine, text: str, native: JsonObject | None = None) -> ChatLine:
    """A line of the user with another text."""
    return dataclasses.replace(line, content=text, native={**(native or line.native), "mes": text})


def reply_line(reply: Reply, speaker: str, *, avatar: str | None = None, round_id: str | None = None) -> ChatLine:
    """A new reply. In a group it says whose it is and which round it belongs to."""
    status = PARTIAL if reply.interrupted else COMPLETE
    if reply.tool_calls:
        native: JsonObject = {
            "role": "assistant",
            "content": reply.text,
            "metadata": {"tool_calls": [call.to_dict() for call in reply.tool_calls]},
        }
        return new_line("assistant", reply.text, native, status=status)
    extra = _extra(reply) if round_id is None else {**_extra(reply), ROUND: round_id}
    message = st.ChatMessage(name=speaker, mes=reply.text, send_date=now(), extra=extra, original_avatar=avatar)
    return new_line("assistant", reply.text, message.to_json(), status=status)


def changed_reply(line: ChatLine, reply: Reply, *, kind: str) -> ChatLine:
    """A reply with another beside it (``swipe``), or with what the model adds (``continue``)."""
    message = st.ChatMessage.from_json(line.native)
    changed = _swiped(message, reply) if kind == "swipe" else _continued(message, reply)
    status = PARTIAL if reply.interrupted else COMPLETE
    return dataclasses.replace(line, content=changed.mes, native=changed.to_json(), status=status)


def now() -> str:
    """The time as chat files have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _round(line: ChatLine) -> object:
    extra = line.native.get("extra")
    return extra.get(ROUND) if is_mapping(extra) else None


def _extra(reply: Reply) -> JsonObject:
    extra: JsonObject = {}
    if reply.reasoning:
        extra["reasoning"] = reply.reasoning
    if reply.interrupted:
        extra["tavernkit"] = {"partial": reply.interrupted}
    return extra


def _swiped(message: st.ChatMessage, reply: Reply) -> st.ChatMessage:
    swipes = [*(message.swipes or (message.mes,)), reply.text]
    kept = {ROUND: message.extra[ROUND]} if ROUND in message.extra else {}
    return message.replace(
        mes=reply.text, swipes=tuple(swipes), swipe_id=len(swipes) - 1, extra={**kept, **_extra(reply)}
    )


def _continued(message: st.ChatMessage, reply: Reply) -> st.ChatMessage:
    text = message.mes + reply.text
    if message.swipes is not None and message.swipe_id is not None and message.swipe_id < len(message.swipes):
        swipes = [*message.swipes]
        swipes[message.swipe_id] = text
        message = message.replace(swipes=tuple(swipes))
    return message.replace(mes=text)
