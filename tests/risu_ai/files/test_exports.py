"""Smaller files that RisuAI exports: personas in pictures, chats as pages."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.cards._png import encode_chunk, placeholder_png, text_chunk
from tavernkit.errors import FileFormatError, TavernKitError, WarningLog
from tavernkit.risu_ai import (
    ChatFile,
    PersonaFileError,
    RisuPersona,
    read_persona,
    write_persona,
)
from tavernkit.risu_ai._files.chat_file import ChatFileError

ANN = RisuPersona(id="old", name="Ann é", prompt="A clerk.")


def test_a_persona_is_written_into_a_picture_and_read_from_it_with_a_new_id() -> None:
    once = write_persona(RisuPersona(id="x", name="Old", prompt="Old."))
    found = read_persona(write_persona(ANN, once))
    assert (found.name, found.prompt) == ("Ann é", "A clerk.")
    assert uuid.UUID(found.id).version == 4
    assert read_persona(write_persona(ANN), new_id=lambda: "n").id == "n"


def picture(content: bytes) -> bytes:
    image = placeholder_png()
    end = encode_chunk(b"IEND", b"")
    return image.removesuffix(end) + text_chunk("persona", content) + end


@pytest.mark.parametrize(
    "data",
    [
        placeholder_png(),
        picture(b"not base64!"),
        picture(base64.b64encode(b"[1]")),
        picture(base64.b64encode(b'{"name": "A"}')),
        picture(base64.b64encode(b'{"name": "", "personaPrompt": "x"}')),
    ],
)
def test_a_picture_without_a_whole_persona_is_refused(data: bytes) -> None:
    with pytest.raises(PersonaFileError):
        read_persona(data, warn=WarningLog())
    with pytest.raises(FileFormatError):
        read_persona(b"no picture", warn=WarningLog())


CHAT = {"name": "One", "note": "", "localLore": [], "message": [{"role": "user", "data": "a < b & c > d"}]}


def page(chat: object) -> bytes:
    text = json.dumps(chat).replace("<", "&lt;").replace(">", "&gt;")
    return f'<!DOCTYPE html><html><body><p>Hi</p><div class="idat">{text}</div></body></html>'.encode()


def test_a_chat_is_read_from_a_page() -> None:
    (chat,) = ChatFile.load(page(CHAT)).chats
    assert (chat.name, chat.messages[0].data) == ("One", "a < b & c > d")


@pytest.mark.parametrize("data", [b"<html></html>", b'<div class="idat">', page([1]), page({"message": 3})])
def test_a_page_without_a_chat_is_refused(data: bytes) -> None:
    with pytest.raises(ChatFileError):
        ChatFile.load(data, warn=WarningLog())


@given(st.binary(max_size=300))
@settings(max_examples=50)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for load in (read_persona, ChatFile.load):
        for content in (data, placeholder_png()[:100] + data, b"<" + data):
            try:
                load(content, warn=WarningLog())
            except TavernKitError:
                continue


PATH: Any = "my.risup"
