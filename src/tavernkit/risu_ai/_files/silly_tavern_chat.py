"""SillyTavern's chat files, as RisuAI imports them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tavernkit._values import Json, is_mapping
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import Limits
from tavernkit.errors import FileFormatError, LimitExceededError, Warn, log_warning
from tavernkit.risu_ai._limits import MAX_CHAT_BYTES
from tavernkit.risu_ai._objects import RisuChat, RisuMessage

_USER = re.compile(r"\{\{user\}\}|<user>", re.IGNORECASE)
_CHARACTER = re.compile(r"\{\{char\}\}|<(?:char|bot)>", re.IGNORECASE)


def read_silly_tavern_chat(
    data: bytes, *, user: str | None = None, character: str | None = None, warn: Warn = log_warning
) -> RisuChat:
    """Read a ``.jsonl`` chat: every line with a text becomes a message, and macros of names are replaced.

    Without ``user`` and ``character`` the names of the file's first line are written.
    """
    if len(data) > MAX_CHAT_BYTES:
        raise LimitExceededError(f"the chat has {len(data)} bytes, more than {MAX_CHAT_BYTES}", limit="MAX_CHAT_BYTES")
    # Only a line feed ends a line: texts may have other line separators as they are.
    header, *lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    first = _line(header, 1, warn)
    names: Mapping[str, object] = first if is_mapping(first) else {}
    user = user if user is not None else str(names.get("user_name") or "User")
    character = character if character is not None else str(names.get("character_name") or "")
    messages: list[RisuMessage] = []
    for number, line in enumerate(lines, start=2):
        value = _line(line, number, warn) if line.strip() else None
        if is_mapping(value) and isinstance(value.get("mes"), str):
            text = _USER.sub(lambda _: user, str(value["mes"]))
            role = "user" if value.get("is_user") else "char"
            messages.append(RisuMessage(role=role, data=_CHARACTER.sub(lambda _: character, text)))
        elif value is not None:
            warn(f"chat: line {number} has no text; it is left out")
    return RisuChat(messages=tuple(messages))


def _line(text: str, number: int, warn: Warn) -> Json:
    try:
        return parse_json(
            text, what=f"chat line {number}", warn=warn, limits=Limits(max_json_file_bytes=MAX_CHAT_BYTES)
        )
    except FileFormatError as error:
        warn(f"chat: line {number} is left out: {error}")
        return None
