from __future__ import annotations

import json
from pathlib import Path

from tavernkit.errors import WarningLog
from tavernkit.risu_ai._files.chat_file import ChatFile, read_silly_tavern_chat


def lines(*values: object) -> bytes:
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in values).encode()


HEADER = {"user_name": "Ann", "character_name": "Bel"}


def test_every_line_with_a_text_becomes_a_message_with_names_in_it(tmp_path: Path) -> None:
    data = lines(
        HEADER,
        {"name": "Bel", "mes": "Hello {{user}}, I am <BOT>."},
        {"name": "Ann", "is_user": True, "mes": "{{char}}!"},
        {"name": "x", "is_system": True, "mes": "hidden"},
    )
    path = tmp_path / "chat.jsonl"
    path.write_bytes(data)
    (chat,) = ChatFile.load(path).chats
    assert ChatFile.load(data).chats == (chat,)
    assert [(message.role, message.data) for message in chat.messages] == [
        ("char", "Hello Ann, I am Bel."),
        ("user", "Bel!"),
        ("char", "hidden"),
    ]
    named = read_silly_tavern_chat(data, user="Zoe", character="Cy")
    assert named.messages[0].data == "Hello Zoe, I am Cy."


def test_only_line_feeds_end_lines() -> None:
    written = [json.dumps(HEADER), *(json.dumps({"mes": text}, ensure_ascii=False) for text in ("a\u2028b\x85c", "d"))]
    chat = read_silly_tavern_chat("\r\n".join(written).encode())
    assert [message.data for message in chat.messages] == ["a\u2028b\x85c", "d"]


def test_damaged_lines_are_reported_and_left_out() -> None:
    log = WarningLog()
    chat = read_silly_tavern_chat(lines(HEADER, "{broken", {"name": "no text"}, {"mes": "fine"}, ""), warn=log)
    assert [message.data for message in chat.messages] == ["fine"]
    assert "line 2" in log.messages[0]
    assert "line 3 has no text" in log.messages[1]
    assert read_silly_tavern_chat(b"", warn=log).messages == ()
