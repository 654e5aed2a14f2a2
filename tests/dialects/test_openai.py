from __future__ import annotations

from typing import Any

import pytest

from tavernkit.dialects import Attachment, convert
from tavernkit.errors import WarningLog
from tavernkit.prompt import Message


def parts(*attachments: object, role: str = "user", content: str = "look") -> tuple[object, tuple[str, ...]]:
    log = WarningLog()
    message = Message(role, content, attachments=list(attachments))  # pyright: ignore[reportArgumentType]
    entry = convert([message], attachments=True, warn=log)[0]
    return entry["content"], tuple(log.messages)


TEXT = {"type": "text", "text": "look"}


def test_a_tool_call_id_is_sent_on_tool_results_only() -> None:
    metadata = {"tool_call_id": "c1"}
    assert convert([Message("user", "x", metadata=metadata)]) == [{"role": "user", "content": "x"}]
    assert convert([Message("tool", "x", metadata=metadata)]) == [
        {"role": "tool", "content": "x", "tool_call_id": "c1"}
    ]


def test_reasoning_goes_back_with_its_tool_call_in_a_request() -> None:
    details = [{"type": "reasoning.encrypted", "data": "AAA"}]
    message = Message("assistant", "", metadata={"reasoning_details": details})
    assert convert([message], attachments=True)[0]["reasoning_details"] == details
    assert "reasoning_details" not in convert([message])[0]


def test_false_counts_as_absent() -> None:
    metadata = {"tool_calls": False, "signature": None}
    assert convert([Message("assistant", "x", metadata=metadata)]) == [{"role": "assistant", "content": "x"}]


def test_the_payload_is_plain_data_that_may_be_changed() -> None:
    message = Message("assistant", "", metadata={"tool_calls": [{"id": "c", "function": {"name": "f"}}]})
    payload: Any = convert([message])
    payload[0]["tool_calls"][0]["id"] = "other"
    assert convert([message])[0]["tool_calls"] == [{"id": "c", "function": {"name": "f"}}]


def test_attachments_are_left_out_with_a_warning_unless_asked_for() -> None:
    log = WarningLog()
    message = Message("user", "look", attachments=[Attachment.image(url="https://e.x/i.png").to_dict()])
    assert convert([message], warn=log) == [{"role": "user", "content": "look"}]
    assert len(log.messages) == 1


def test_images_by_url_and_by_data() -> None:
    by_url = Attachment.image(url="https://e.x/i.png", detail="low").to_dict()
    by_data = Attachment.image(data=b"\x89PNG", media_type="image/webp").to_dict()
    content, warnings = parts(by_url, by_data)
    assert content == [
        TEXT,
        {"type": "image_url", "image_url": {"url": "https://e.x/i.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,iVBORw=="}},
    ]
    assert warnings == ()


def test_audio_video_and_files() -> None:
    content, warnings = parts(
        Attachment.audio(data=b"abc", media_type="audio/mpeg").to_dict(),
        Attachment.make("video", url="https://e.x/v.mp4").to_dict(),
        Attachment.file(data=b"%PDF", name="a.pdf").to_dict(),
        {"type": "file", "file_id": "file-1"},
    )
    assert content == [
        TEXT,
        {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}},
        {"type": "video_url", "video_url": {"url": "https://e.x/v.mp4"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    assert warnings == ()


def test_what_openai_cannot_take_is_left_out_with_a_warning() -> None:
    content, warnings = parts(Attachment.audio(url="https://e.x/a.mp3").to_dict(), {"x": 1}, "junk")
    assert content == "look", "without media the content stays a text"
    assert len(warnings) == 3


@pytest.mark.parametrize("role", ["assistant", "system", "tool"])
def test_only_users_may_attach(role: str) -> None:
    content, warnings = parts(Attachment.image(url="https://e.x/i.png").to_dict(), role=role)
    assert content == "look"
    assert len(warnings) == 1


def test_an_image_without_words_is_a_message() -> None:
    content, _ = parts(Attachment.image(url="u").to_dict(), content="")
    assert content == [{"type": "image_url", "image_url": {"url": "u"}}]
    content, _ = parts({"x": 1}, content="")
    assert content == ""
