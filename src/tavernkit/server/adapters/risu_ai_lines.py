"""Lines of RisuAI's chats: how a turn reads and writes them, and who speaks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

from tavernkit import risu_ai
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw_object
from tavernkit.dialects import Attachment
from tavernkit.models import Reply
from tavernkit.prompt._block import Message
from tavernkit.risu_ai._conversation.chat_state import branch_comment, branch_names
from tavernkit.risu_ai._files.chat_file import chat_json
from tavernkit.risu_ai._files.kept_fields import kept_fields
from tavernkit.server.adapters.swipes import RISU_SPEAKER, RISU_SWIPE, RISU_SWIPES, risu_swipes, with_text
from tavernkit.server.adapters.turn import NEUTRAL, OPERATIONS, OUTSIDE_CHAT, PARTS, Spoken, TurnInput
from tavernkit.server.errors import ServiceError
from tavernkit.server.library.library import Cast
from tavernkit.server.storage.lines import COMPLETE, ChatLine, new_line
from tavernkit.server.storage.tables import new_id

ROLES = {"user": "user", "char": "assistant"}
INLAYS = "tavernkit_inlays"
"""The key of a message's pictures: RisuAI stores them elsewhere."""
SYSTEM = "system"
_MARKS = frozenset((NEUTRAL, INLAYS))
"""Keys of the service's own in messages; most have none, and long chats are read in every turn."""
TAKEN_BACK = "tavernkit_taken_back"
"""The key in a chat of the reply that a swipe took out of it and did not replace, with the id of the line before."""
GREETING, NO_GREETING = "fmIndex", -2
"""The key of a chat's greeting, and a number that does not exist: a chat without one would get the first."""


def user_line(
    text: str, *, user_name: str, extra: JsonObject | None = None, name: str = "", avatar: str | None = None
) -> ChatLine:
    """Return a line of the user, as typed; pictures are referred to in the text, as in RisuAI.

    RisuAI's chats have one user: the name of another user is put before the text.
    """
    del avatar
    if name and name != user_name:
        text = f"{name}: {text}"
    pictures = _pictures(extra or {})
    inlays: JsonObject = {new_id(): url for url in pictures}
    line = _own_line("user", "".join([text, *(f"{{{{inlayed::{each}}}}}" for each in inlays)]))
    kept: JsonObject = {INLAYS: inlays} if inlays else {}
    if (extra or {}).get(PARTS):
        kept[PARTS] = (extra or {})[PARTS]
    return dataclasses.replace(line, native={**line.native, **kept}) if kept else line


def reply_line(text: str) -> ChatLine:
    """Return a reply of a client's own history."""
    return _own_line("assistant", text)


def branch_name(name: str) -> str:
    """Return the name of a branch."""
    return next(each for each in branch_names(name) if each != name)


def comment_line(chat: str, name: str, line: str) -> ChatLine:
    """Return the last line of a branch, which names its origin.

    Args:
        chat: The id of the chat.
        name: Its name.
        line: The id of the last line that both have.
    """
    message = branch_comment(chat, name, line)
    made = new_line("assistant", message.data, {})
    return dataclasses.replace(made, native={**thaw_object(message.to_json()), "chatId": made.id})


def inlays_of(lines: Sequence[ChatLine]) -> dict[str, risu_ai.Inlay]:
    """Return the pictures that lines refer to."""
    found: dict[str, risu_ai.Inlay] = {}
    for line in ChatLine.marked(lines, _MARKS):
        inlays = line.native.get(INLAYS)
        for name, url in inlays.items() if is_object(inlays) else ():
            found[name] = risu_ai.Inlay(Attachment.image(url=str(url)))
    return found


def own_lines(lines: Sequence[ChatLine]) -> list[ChatLine]:
    """Return the lines that RisuAI knows."""
    if not any(NEUTRAL in line.native for line in ChatLine.marked(lines, _MARKS)):
        return list(lines)
    return [line for line in lines if NEUTRAL not in line.native]


def open_exchange(lines: Sequence[ChatLine]) -> list[Message]:
    """Return the tool calls and results at the end of a chat, as messages: the model continues from there."""
    first = len(lines)
    while first > 0 and NEUTRAL in lines[first - 1].native:
        first -= 1
    return [_message(line) for line in lines[first:] if line.role != SYSTEM]


def system_messages(lines: Sequence[ChatLine]) -> list[Message]:
    """Return a client's system messages: RisuAI's chats cannot contain them, so they go before the prompt."""
    marked = ChatLine.marked(lines, _MARKS)
    return [_message(line) for line in marked if line.role == SYSTEM and NEUTRAL in line.native]


def chat_of(given: TurnInput, lines: Sequence[ChatLine]) -> risu_ai.RisuChat:
    """Return the chat at the start of a turn.

    Args:
        given: The turn.
        lines: The lines that RisuAI knows, without what is being sent.
    """
    found = risu_ai.RisuChat.from_json({GREETING: NO_GREETING, **given.details, "id": given.chat_id, "message": []})
    return dataclasses.replace(found, messages=tuple(ChatLine.convert_all(lines, risu_ai.RisuMessage.from_json)))


def lines_of(chat: risu_ai.RisuChat, given: TurnInput) -> list[ChatLine]:
    """Return the lines of a chat; stored ones are matched by RisuAI's own ids, neutral ones stay in place."""
    same = ChatLine.same_messages(given.lines, chat.messages)
    kept = given.lines[same:]
    known = {str(line.native.get("chatId")): line for line in own_lines(kept)}
    followers = followers_of(kept)
    pending = next((line for line in kept if line.id == given.pending), None)
    lines = [*given.lines[:same], *followers.pop("", [])]
    for message in chat.messages[same:]:
        native = thaw_object(message.to_json())
        line = known.pop(str(native.get("chatId")), None)
        if line is None and pending is not None and message.role == "user":
            line, pending = pending, None
            native = {**line.native, **native, "chatId": line.id}
        if line is None:
            # RisuAI's ids depend on the position; ours stay unique when earlier messages are removed.
            line = new_line(ROLES.get(message.role, "assistant"), message.data, {})
            native["chatId"] = line.id
        if line.content != message.data or line.native != native:
            line = dataclasses.replace(line, content=message.data, native=native, status=COMPLETE)
        lines += [line, *followers.pop(line.id, [])]
    return lines


def with_taken_back(given: TurnInput) -> TurnInput:
    """Return the turn of a swipe with the reply that an earlier one has taken back and not replaced."""
    found, before = given.details.get(TAKEN_BACK), given.lines[-1].id if given.lines else ""
    message = found.get("message") if is_object(found) and found.get("after") == before else None
    if given.kind != "swipe" or not is_object(message):
        return given
    line = new_line("assistant", str(message.get("data")), {})
    line = dataclasses.replace(line, native={**message, "chatId": line.id})
    return dataclasses.replace(given, lines=[*given.lines, line])


def swiped(old: ChatLine, new: ChatLine) -> ChatLine:
    """Return the old line with the new reply as a swipe."""
    swipes, _ = risu_swipes(old.native) or ([old.content], 0)
    listed: list[Json] = [*swipes, new.content]
    native: JsonObject = {**new.native, "chatId": old.id, RISU_SWIPES: listed, RISU_SWIPE: len(swipes)}
    return dataclasses.replace(old, content=new.content, native=native, status=new.status)


def continued(old: ChatLine, new: ChatLine) -> ChatLine:
    """Return the old line with its continued text: RisuAI makes a new message from both parts."""
    native = with_text({**old.native, "data": new.content}, new.content)
    return dataclasses.replace(old, content=new.content, native=native, status=new.status)


def details_of(chat: risu_ai.RisuChat) -> JsonObject:
    """Return the data of a chat besides lines and variables."""
    stored = chat_json(dataclasses.replace(chat, messages=()))
    found = {key: value for key, value in stored.items() if key not in ("message", "scriptstate")}
    if found.get(GREETING) == NO_GREETING:
        del found[GREETING]
    return found


def details_after(given: TurnInput, chat: risu_ai.RisuChat, lines: Sequence[ChatLine]) -> JsonObject:
    """Return the data of a chat at the end of a turn.

    Args:
        given: The turn.
        chat: The chat.
        lines: Its lines.
    """
    found = details_of(chat)
    if given.kind not in (*OUTSIDE_CHAT, *OPERATIONS):
        found.pop(TAKEN_BACK, None)
    if given.kind == "swipe" and all(line.id != given.lines[-1].id for line in lines):
        # RisuAI asks for another reply after it has taken the reply out; the next swipe brings both.
        message = {**given.lines[-1].native, "data": given.lines[-1].content}
        found[TAKEN_BACK] = {"after": lines[-1].id if lines else "", "message": message}
    return found


def ids_of(cast: Cast) -> dict[str, str]:
    """Return the RisuAI ids of a group's members, by their ids here."""
    found: dict[str, str] = {}
    for member, bundle in cast.members.items():
        own = kept_fields(bundle).get("chaId")
        found[member] = own if isinstance(own, str) and own and own not in found.values() else member
    return found


def chosen_speaker(given: TurnInput) -> str | None:
    """Return the RisuAI id of the speaker of a turn: chosen by the client, or the speaker of the swiped reply."""
    if given.cast.group is None:
        return None
    ids, member = ids_of(given.cast), given.cast.member(given.speaker)
    if given.kind in ("swipe", "continue"):
        saying = given.lines[-1].native.get("saying") if given.lines else None
        return saying if isinstance(saying, str) and saying in ids.values() else next(iter(ids.values()), None)
    if given.speaker is not None and member is None:
        raise ServiceError(
            422, f"{given.speaker!r:.200} is not a member of the group", code="no_such_speaker", param="speaker"
        )
    return ids[member] if member is not None else None


def is_round(given: TurnInput) -> bool:
    """Return True if several members of a group may speak in a turn."""
    return given.cast.group is not None and given.speaker is None and given.kind in ("normal", "regenerate")


def with_speakers(lines: Sequence[ChatLine], cast: Cast) -> list[ChatLine]:
    """Return the lines with the names of their speakers."""
    names = {own: cast.members[member].character.name for member, own in ids_of(cast).items()}
    return [_with_speaker(line, names) for line in lines]


def speaker_of(line: ChatLine) -> str:
    """Return the name of a line's sender; empty if unknown."""
    return str(line.native.get(RISU_SPEAKER) or "")


def spoken_since(lines: Sequence[ChatLine], kept: Sequence[ChatLine], replies: Sequence[Reply]) -> list[Spoken]:
    """Return the replies of a round, as stored."""
    known = {line.id for line in kept}
    new = [line for line in lines if line.id not in known and line.role == "assistant" and NEUTRAL not in line.native]
    # RisuAI may ask more than once for one message: then the cost of each is unknown.
    own = replies if len(replies) == len(new) else [Reply(finish_reason="stop") for _ in new]
    return [
        Spoken(speaker=speaker_of(line), reply=dataclasses.replace(reply, text=line.content), line_id=line.id)
        for line, reply in zip(new, own, strict=True)
    ]


def _with_speaker(line: ChatLine, names: Mapping[str, str]) -> ChatLine:
    name = names.get(str(line.native.get("saying")))
    if name is None or line.native.get(RISU_SPEAKER) == name:
        return line
    return dataclasses.replace(line, native={**line.native, RISU_SPEAKER: name})


def _pictures(extra: JsonObject) -> list[str]:
    media = extra.get("media")
    listed = [each.get("url") for each in media if is_object(each)] if is_list(media) else []
    return [url for url in listed if isinstance(url, str)]


def _own_line(role: str, text: str) -> ChatLine:
    line = new_line(role, text, {})
    stored = "user" if role == "user" else "char"
    native: JsonObject = {"role": stored, "data": text, "chatId": line.id, "time": int(time.time() * 1000)}
    return dataclasses.replace(line, native=native)


def followers_of(lines: Sequence[ChatLine]) -> dict[str, list[ChatLine]]:
    """Return neutral lines by the RisuAI line that they follow."""
    found: dict[str, list[ChatLine]] = {}
    before = ""
    for line in lines:
        if NEUTRAL in line.native:
            found.setdefault(before, []).append(line)
        else:
            before = line.id
    return found


def _message(line: ChatLine) -> Message:
    metadata = line.native.get(NEUTRAL)
    return Message(role=line.role, content=line.content, metadata=metadata if is_object(metadata) else {})
