"""Pictures, audio, videos and texts attached to the user's message."""

from __future__ import annotations

import base64
import mimetypes
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tavernkit._arguments import require
from tavernkit._turns import Chat, Turn
from tavernkit._values import Json, JsonObject
from tavernkit.cards._source import read_file
from tavernkit.dialects._attachments import Attachment
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._conversation.chat import Chat as RisuAIChat
from tavernkit.silly_tavern._conversation.chat import Chat as SillyTavernChat

AttachmentInput: TypeAlias = str | os.PathLike[str] | Attachment
"""The path of a file, or an ``Attachment``."""

MAX_ATTACHMENT_BYTES: Final = 64 * 1024 * 1024
TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml")


def load_attachments(given: Iterable[AttachmentInput]) -> list[Attachment]:
    """Read the files among attachments.

    Raises:
        ConfigError: An item is neither a file nor an attachment.
    """
    if isinstance(given, (str, os.PathLike, Attachment)):
        raise ConfigError("attachments must be a list: pass attachments=[…]")
    found: list[Attachment] = []
    for each in given:
        if isinstance(each, Attachment):
            found.append(each)
            continue
        require("attachments", each, str | os.PathLike[str], "paths or attachments")
        path = Path(each)
        media_type = mimetypes.guess_type(path.name)[0] or "text/plain"
        kind = media_type.partition("/")[0]
        data = read_file(path, MAX_ATTACHMENT_BYTES, limit="MAX_ATTACHMENT_BYTES")
        kind = kind if kind in ("image", "audio", "video") else "file"
        found.append(Attachment.make(kind, data=data, media_type=media_type, name=path.name))
    return found


async def send_with_attachments(chat: Chat, text: str, attachments: Sequence[Attachment]) -> Turn:
    """Send the user's message with attachments, as the chat's program would.

    Args:
        chat: The chat.
        text: The message.
        attachments: Files sent with it.
    """
    if isinstance(chat, SillyTavernChat):
        # The line is stored before the prompt is built, because the message input of a build is a text, not a line.
        chat.add_message(text, extra=line_extra(attachments))
        await chat.host.checkpoint()
        return await chat.answer()
    if isinstance(chat, RisuAIChat):
        if any(each.kind == "file" for each in attachments):
            raise ConfigError("RisuAI's messages take images, audio and video, not other files")
        return await chat.send(text, files=[chat.attach(each) for each in attachments])
    raise ConfigError("this chat takes no attachments")


def line_extra(attachments: Sequence[Attachment]) -> JsonObject:
    """Return attachments in the format of a SillyTavern line; their content is in the line itself."""
    media: list[Json] = []
    files: list[Json] = []
    for each in attachments:
        if each.kind == "file":
            text = _text(each)
            files.append({"name": each.name or "file", "size": len(text.encode()), "text": text})
        else:
            media.append({"url": each.data_url, "type": each.kind, "title": each.name or "", "source": "upload"})
    extra: JsonObject = {}
    if media:
        extra |= {"media": media, "media_display": "list", "inline_image": True}
    if files:
        extra["files"] = files
    return extra


def _text(attachment: Attachment) -> str:
    """Return the text of a file; SillyTavern's prompts cannot contain other files."""
    if attachment.data is None or not attachment.mime_type.startswith(TEXT_TYPES):
        raise ConfigError(f"{attachment.name or 'the file'} is {attachment.mime_type}: attach its text instead")
    try:
        return base64.b64decode(attachment.data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{attachment.name or 'the file'} is not UTF-8 text: {error}") from error
