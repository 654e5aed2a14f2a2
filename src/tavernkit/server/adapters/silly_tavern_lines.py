"""Lines of SillyTavern's chats, before and after a turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from tavernkit import silly_tavern as st
from tavernkit._dataclass import replaced
from tavernkit._values import Json, JsonObject, is_mapping, is_object
from tavernkit.server.adapters.turn import NEUTRAL
from tavernkit.server.limits import CHANGEABLE_GROUP_LINES, CHANGEABLE_LINES
from tavernkit.server.storage.lines import COMPLETE, PARTIAL, ChatLine, new_line
from tavernkit.silly_tavern._conversation import lines as chat_lines
from tavernkit.silly_tavern._conversation.numbered_lines import NumberedLines

RUN = "tavernkit_run"
"""The key in a session's details of what SillyTavern knows only as long as a chat is open.

Here a chat is opened once, by the first turn of its session.
"""


def user_line(
    text: str, *, user_name: str, extra: JsonObject | None = None, name: str = "", avatar: str | None = None
) -> ChatLine:
    """Return a line of the user, as typed; ``name`` means that it is from another user, like another persona."""
    if name and name != user_name:
        avatar = f"{name}.png"
    native = chat_lines.user_line(name or user_name, text, now(), avatar=avatar)
    # The line as the turn left it: usually it need not be stored again.
    native["extra"] = {**chat_lines.extra_of(native), "reasoning": "", **(extra or {})}
    return new_line("user", text, native)


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
    return bool(named) and (avatar is None or named != chat_lines.PERSONA_AVATAR.format(avatar))


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


def numbered(lines: Sequence[ChatLine]) -> NumberedLines:
    """Return stored lines as lines of a chat."""
    neutral = any(NEUTRAL in line.native for line in lines)
    return NumberedLines([line.native for line in lines], None if neutral else earlier_messages(lines))


def lines_after(
    stored: Sequence[ChatLine], changed: Iterable[tuple[Sequence[int], JsonObject]], sent: ChatLine | None
) -> list[ChatLine]:
    """Return the lines to store after a turn; neutral ones stay as they are.

    Args:
        stored: The lines before.
        changed: The lines of the chat, each with the places that it had among them.
        sent: The stored line of what the user has just sent.
    """
    found: list[ChatLine] = []
    for places, line in changed:
        sources = [stored[place] for place in places]
        if sources:
            same = NEUTRAL in sources[0].native or sources[0].native == line
            found += sources if same else [_with_native(sources[0], line)]
        elif sent is not None and line.get("is_user"):
            found.append(_with_native(sent, _sent_native(sent, line)))
            sent = None
        else:
            found.append(_with_native(new_line("user" if line.get("is_user") else "assistant", "", {}), line))
    return found


def _with_native(line: ChatLine, native: JsonObject) -> ChatLine:
    mes, extra = native.get("mes"), native.get("extra")
    own = extra.get("tavernkit") if is_object(extra) else None
    partial = is_object(own) and bool(own.get("partial"))
    content = mes if isinstance(mes, str) else ""
    return replaced(line, content=content, native=native, status=PARTIAL if partial else COMPLETE)


def _sent_native(sent: ChatLine, line: JsonObject) -> JsonObject:
    """Return the stored form of the user's message, with its audio and files."""
    before, extra = sent.native.get("extra"), line.get("extra")
    both = {**(before if is_object(before) else {}), **(extra if is_object(extra) else {})}
    return {**sent.native, **line, "send_date": sent.native.get("send_date"), "extra": both}


def added_keys(line: ChatLine) -> dict[str, Json]:
    """The keys of a user's line that ``tavernkit.silly_tavern.Chat.add_message()`` keeps."""
    return {key: line.native[key] for key in ("name", "extra", "force_avatar") if key in line.native}


def run_of(details: JsonObject) -> JsonObject:
    """Return what is known of a session because it is open; empty before its first turn."""
    run = details.get(RUN)
    return run if is_object(run) else {}


def opened_again(details: JsonObject, *, only_summary: bool = False) -> JsonObject:
    """Return the details of a session as they are before its first turn.

    Args:
        details: The details.
        only_summary: True to forget only which summary was stored then.
    """
    others = {key: value for key, value in details.items() if key != RUN}
    kept = {key: value for key, value in run_of(details).items() if only_summary and key != "summary"}
    return {**others, RUN: kept} if kept else others


def now() -> str:
    """Return the time in the format of chat files."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
