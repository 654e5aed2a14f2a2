from __future__ import annotations

import base64

import pytest

from tavernkit.dialects import Attachment, parse_attachment
from tavernkit.errors import ConfigError

PNG = base64.b64encode(b"png").decode()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"type": "image", "url": "https://e.x/i.jpg?x=1"}, ("image", "https://e.x/i.jpg?x=1", None, "image/jpeg")),
        ({"type": "image", "data": PNG, "mime_type": "image/gif"}, ("image", None, PNG, "image/gif")),
        ({"type": "image", "url": f"data:image/webp;base64,{PNG}"}, ("image", None, PNG, "image/webp")),
        ({"type": "image_url", "image_url": {"url": "u"}}, ("image", "u", None, "image/png")),
        ({"type": "image_url", "image_url": "u"}, ("image", "u", None, "image/png")),
        (
            {"type": "audio_url", "audio_url": {"url": f"data:audio/mpeg;base64,{PNG}"}},
            ("audio", None, PNG, "audio/mpeg"),
        ),
        ({"type": "image", "url": "data:image/svg+xml,p%6eg"}, ("image", None, PNG, "image/svg+xml")),
        ({"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}}, ("audio", None, PNG, "audio/mpeg")),
        ({"type": "input_audio", "input_audio": {"data": PNG}}, ("audio", None, PNG, "audio/wav")),
        ({"type": "document", "data": PNG, "name": "a.pdf"}, ("file", None, PNG, "application/pdf")),
        ({"type": "file", "file": {"file_data": f"data:text/plain;base64,{PNG}"}}, ("file", None, PNG, "text/plain")),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            ("image", None, PNG, "image/png"),
        ),
        ({"type": "document", "source": {"type": "url", "url": "u"}}, ("file", "u", None, "application/octet-stream")),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "png"}},
            ("file", None, PNG, "text/plain"),
        ),
        ({"inlineData": {"mimeType": "audio/ogg", "data": PNG}}, ("audio", None, PNG, "audio/ogg")),
        ({"file_data": {"file_uri": "gs://x"}}, ("file", "gs://x", None, "application/octet-stream")),
        ({"type": "video", "url": "https://e.x/v"}, ("video", "https://e.x/v", None, "video/mp4")),
    ],
)
def test_every_usual_form_of_an_attachment_is_read(raw: dict[str, object], expected: tuple[object, ...]) -> None:
    attachment = parse_attachment(raw)
    assert attachment is not None
    assert (attachment.kind, attachment.url, attachment.data, attachment.mime_type) == expected
    assert parse_attachment(attachment.to_dict()) == attachment
    assert parse_attachment(attachment) is attachment


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "image",
        {},
        {"type": "image"},
        {"type": "image", "url": 7},
        {"type": "image", "url": "u", "data": PNG},
        {"type": "hologram", "url": "u"},
        {"type": "input_audio"},
        {"type": ["image"]},
        {"inline_data": "x"},
    ],
)
def test_what_is_no_attachment_gives_nothing(raw: object) -> None:
    assert parse_attachment(raw) is None


def test_a_data_url_that_is_not_base64_is_encoded() -> None:
    attachment = Attachment.file(url="data:text/plain,hello")
    assert attachment.data == base64.b64encode(b"hello").decode()
    assert attachment.data_url == "data:text/plain;base64,aGVsbG8="


def test_an_attachment_is_one_thing_only() -> None:
    with pytest.raises(ConfigError):
        Attachment.image()
    with pytest.raises(ConfigError):
        Attachment.image(url="u", data=b"x")
    with pytest.raises(ConfigError):
        Attachment.make("smell", url="u")


def test_texts_with_half_a_character_are_attached() -> None:
    attachment = Attachment.make("file", url="data:text/plain,a\ud83d")
    assert attachment.data == base64.b64encode(b"a?").decode()
