"""Sessions as files that a conversation continues, and the lines of a session after such a file has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._dataclass import replaced
from tavernkit._text.js_values import json_stringify
from tavernkit._values import Json, JsonObject, is_list, is_object, same_start, thaw, thaw_object
from tavernkit.dialects._attachments import parse_attachment
from tavernkit.risu_ai._files.chat_file import write_chats
from tavernkit.server.adapters.risu_ai_lines import (
    GREETING,
    INLAYS,
    NO_GREETING,
    details_of,
    followers_of,
    inlays_of,
    own_lines,
)
from tavernkit.server.adapters.swipes import RISU_SWIPE, RISU_SWIPES, risu_swipes
from tavernkit.server.adapters.turn import NEUTRAL
from tavernkit.server.library.library import RISU_AI
from tavernkit.server.sessions.files import risu_ai_line, silly_tavern_file, silly_tavern_line, stored_risu_chat
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.lines import ChatLine

USER = "user"
ADDED_BY_WRITING = frozenset(("user_name", "character_name", "chat_metadata"))
"""Keys of a chat file's first line that a session has elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """The parts of a chat file that a session stores separately."""

    details: JsonObject
    variables: JsonObject
    header: JsonObject
    """Other keys of the first line of a SillyTavern chat, for which a session has no place."""
    messages: Sequence[bytes]
    """Its messages as they are written."""


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a session, and how it is written in the file."""

    written: bytes
    line: ChatLine


def session_file(chat: ChatState, lines: Sequence[ChatLine], header: JsonObject) -> bytes:
    """Return a session as a file of its platform.

    Args:
        chat: The session.
        lines: Its lines.
        header: Keys of the file's first line that the session has no place for.
    """
    if chat.selection.platform == RISU_AI:
        # Without a greeting of its own, a RisuAI chat would get the first one.
        begun = replaced(chat, details={GREETING: NO_GREETING, **chat.details})
        name = str(chat.details.get("name") or chat.external_id)
        return write_chats(risu_ai.ChatFile((stored_risu_chat(begun, name, lines),), ()))
    return silly_tavern_file(chat, chat.external_id, lines, header)


def read_session_file(platform: str, content: bytes) -> SessionFile:
    """Split a chat file into what a session stores.

    Args:
        platform: The platform of the session.
        content: The file.
    """
    if platform == RISU_AI:
        chat = risu_ai.ChatFile.load(content, warn=_ignore).chats[0]
        messages = [json_stringify(thaw(each.to_json())).encode("utf-8", "surrogatepass") for each in chat.messages]
        return SessionFile(
            details=details_of(chat), variables=risu_ai.chat_variables(chat), header={}, messages=messages
        )
    first, *rest = content.split(b"\n")
    file = st.ChatFile.load(first, warn=_ignore)
    details = file.metadata.to_json()
    variables = details.pop("variables", None)
    header = {key: value for key, value in thaw_object(file.header).items() if key not in ADDED_BY_WRITING}
    messages = [each for each in rest if each.strip()]
    return SessionFile(
        details=details, variables=variables if is_object(variables) else {}, header=header, messages=messages
    )


def file_lines(platform: str, lines: Sequence[ChatLine], messages: Sequence[bytes]) -> list[FileLine]:
    """Return the lines of a session with their messages in its file.

    Args:
        platform: The platform.
        lines: The lines.
        messages: The messages of the file that was made from them.
    """
    shown = own_lines(lines) if platform == RISU_AI else lines
    return [FileLine(written, line) for written, line in zip(messages, shown, strict=True)]


def changed_lines(platform: str, before: Sequence[FileLine], messages: Sequence[bytes]) -> list[FileLine]:
    """Return the lines of a file that has changed; as many as possible keep their ids.

    Args:
        platform: The platform.
        before: The lines before.
        messages: The messages of the file now.
    """
    old = tuple(each.written for each in before)
    start = same_start(old, tuple(messages))
    end = 0
    while end < min(len(old), len(messages)) - start and old[-1 - end] == messages[-1 - end]:
        end += 1
    removed = list(before[start : len(before) - end])
    found = list(before[:start])
    for written in messages[start : len(messages) - end]:
        line = _line(platform, written)
        if removed and (removed[0].line.role == USER) == (line.role == USER):
            line = _with_content_of(removed.pop(0).line, line)
        found.append(FileLine(written, line))
    return [*found, *before[len(before) - end :]]


def stored_lines(platform: str, before: Sequence[ChatLine], now: Sequence[FileLine]) -> list[ChatLine]:
    """Return the lines to store: RisuAI's files have no tool calls, which stay behind the messages they follow.

    Args:
        platform: The platform.
        before: The stored lines.
        now: The lines of the file.
    """
    lines = [each.line for each in now]
    if platform != RISU_AI:
        return lines
    followers = followers_of(before)
    found = [*followers.pop("", [])]
    for line in lines:
        found += [line, *followers.pop(line.id, [])]
    return found


def with_app_state(platform: str, now: Sequence[FileLine], state: Mapping[str, Json]) -> list[FileLine]:
    """Return the lines of a RisuAI chat with what RisuAI has outside of chats: earlier replies and pictures.

    Args:
        platform: The platform.
        now: The lines.
        state: The state of the conversation.
    """
    if platform != RISU_AI or not now:
        return list(now)
    inlays = state.get("inlays")
    found = [_with_inlays(each, inlays) if is_object(inlays) else each for each in now]
    rerolls = state.get("rerolls")
    tails = rerolls.get("tails") if is_object(rerolls) else None
    texts = [_text(tail) for tail in tails] if is_list(tails) else []
    shown = rerolls.get("position") if is_object(rerolls) else None
    last = found[-1]
    shows = isinstance(shown, int) and 0 <= shown < len(texts) and texts[shown] == last.line.content
    if len(texts) > 1 and shows and last.line.role == "assistant":
        swipes: JsonObject = {RISU_SWIPES: [*texts], RISU_SWIPE: shown}
        found[-1] = FileLine(last.written, replaced(last.line, native={**last.line.native, **swipes}))
    return found


def app_state(platform: str, lines: Sequence[ChatLine]) -> JsonObject:
    """Return what RisuAI has outside of chats, as the state of a conversation.

    Args:
        platform: The platform.
        lines: The lines of the session.
    """
    if platform != RISU_AI or not lines:
        return {}
    state: JsonObject = {}
    if inlays := inlays_of(lines):
        state["inlays"] = {name: each.attachment.to_dict() for name, each in inlays.items()}
    native = lines[-1].native
    if (swipes := risu_swipes(native)) is not None:
        message = {key: value for key, value in native.items() if key not in (RISU_SWIPES, RISU_SWIPE)}
        state["rerolls"] = {"tails": [[{**message, "data": text}] for text in swipes[0]], "position": swipes[1]}
    return state


def _line(platform: str, written: bytes) -> ChatLine:
    message: Json = json.loads(written.decode("utf-8", "surrogatepass"))
    native: JsonObject = message if is_object(message) else {}
    if platform == RISU_AI:
        return risu_ai_line(risu_ai.RisuMessage.from_json(native))
    return silly_tavern_line(st.ChatMessage.from_json(native))


def _with_content_of(before: ChatLine, now: ChatLine) -> ChatLine:
    """Return a stored line with the content of another one; tool calls and results stay what they are."""
    if NEUTRAL in before.native:
        return replaced(before, content=now.content, native={**before.native, "content": now.content})
    return replaced(before, role=now.role, content=now.content, native=now.native, status=now.status)


def _with_inlays(each: FileLine, inlays: JsonObject) -> FileLine:
    """Return a line with the pictures that it refers to."""
    found: JsonObject = {}
    for name, value in inlays.items():
        attachment = parse_attachment(value) if name in each.line.content else None
        if attachment is not None and attachment.kind == "image":
            found[name] = attachment.data_url
    native = each.line.native
    if not found or native.get(INLAYS) == found:
        return each
    return FileLine(each.written, replaced(each.line, native={**native, INLAYS: found}))


def _text(tail: Json) -> str:
    message = tail[-1] if is_list(tail) and tail else None
    return str(message.get("data") or "") if is_object(message) else ""


def _ignore(_: str) -> None:
    """Ignore a warning: the file was written by us."""
